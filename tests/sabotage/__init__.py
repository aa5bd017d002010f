"""Shows that the tests notice: faults are planted in the product and in grammar engines, and each has to be found."""
