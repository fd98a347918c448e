"""What a failed test leaves to look at, on whichever cluster it failed."""
