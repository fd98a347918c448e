"""kwait-scheduler as a program: started by its name, watched from outside, ended by signals."""
