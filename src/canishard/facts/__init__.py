"""What follows from records; every function here is pure."""
