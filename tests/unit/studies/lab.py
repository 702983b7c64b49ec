"""The smallest laboratory that a study trains in."""

LAB = [
    "task.symbols=5",
    "task.min_length=2",
    "task.max_length=3",
    "task.train=20",
    "task.dev=10",
    "task.test=10",
    "model.d_model=16",
    "model.heads=2",
    "model.d_ff=16",
    "train.epochs=1",
]
