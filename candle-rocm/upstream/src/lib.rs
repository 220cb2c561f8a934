// Nothing: this package exists for its lock file.
