"""`--kwait-explore`: run tests many times while the embedded cluster perturbs them under seeds.

A loop of this plugin runs whole test protocols, and one report a test is logged at the end. Copies
of tests would need other node ids for the cache and for JUnit, could not follow a time, and would
flood the terminal.

Contents: the loop, its workers, and what they report. Registered with that option.
"""
