"""What every room may use: checks of arguments, forks of the process, properties worked out once."""
