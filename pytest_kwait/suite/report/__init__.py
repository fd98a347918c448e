"""Reports of a run: recording, merging, and the JSON, HTML, JUnit and GitHub formats.

Contents: records and formats of reports. `page/` has the HTML, CSS and JavaScript of the
page.
"""
