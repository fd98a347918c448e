"""A run that was killed leaves nothing for long, and its janitor touches nothing else."""
