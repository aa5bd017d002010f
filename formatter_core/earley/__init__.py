"""The plain parser behind `formatter_core.parse`: recognising, and the preferred parse."""
