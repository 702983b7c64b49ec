"""What people run by hand: commands, importers, films, serving, landmarks without a project."""
