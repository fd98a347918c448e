"""Where pods go, and what is said of those that go nowhere."""
