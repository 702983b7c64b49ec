"""Signs of a sentence recognised from a dictionary of single takes, without a training."""
