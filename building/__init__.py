"""The build of this project from source; nothing here is installed."""
