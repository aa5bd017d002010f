"""How this project is built from source; nothing here is installed."""
