"""Reports of a run: recording, merging, and the JSON, HTML, JUnit and GitHub formats.

May enter: records and formats of reports. `page/` has the HTML, CSS and JavaScript of the
page.
"""
