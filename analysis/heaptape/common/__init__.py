"""What every room may use: errors, where files lie, output, progress, work in several processes."""
