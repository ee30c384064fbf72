"""What every floor stands on: errors, the limits of the machine, threads, progress, checks, files that appear whole."""
