"""kwait-scheduler as a program: configuration, endpoints, signals."""
