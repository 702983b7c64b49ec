"""A seed comes in; what people say when they order coffee, in English and in signs, goes out.

The signs stand in another order than the English words, as signers put the topic first: what is
wanted, then its size, then who asks; PLEASE follows the greeting. English articles and `and` have
no sign. `can i get a large coffee please` is PLEASE COFFEE LARGE I GET CAN.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

GOODS = ("coffee", "tea", "water", "muffin")
SIZES = ("", "small", "medium", "large")
REQUESTS = {"can i get": ("i", "get", "can"), "i get": ("i", "get"), "": ()}
"""How one asks, and the signs of it, which stand at the end."""
THANKS = ("", "please", "thank you")
SIGNS = (*GOODS, *SIZES[1:], "i", "get", "can", "hello", "no", "please", "thank-you")

# Chances of what a customer may add.
_TWO_GOODS, _HELLO, _NO = 0.3, 0.5, 0.2


@dataclass(frozen=True, slots=True)
class Order:
    """One sentence."""

    text: str
    signs: tuple[str, ...]


def draw_orders(generator: np.random.Generator, count: int) -> list[Order]:
    """Draw orders, no sentence twice.

    Args:
        generator: Decides the result.
        count: How many; there are some thousands.
    """
    found: dict[str, Order] = {}
    for order in _draw_forever(generator):
        found.setdefault(order.text, order)
        if len(found) == count:
            return list(found.values())
    raise AssertionError("the generator never ends")


def _draw_forever(generator: np.random.Generator) -> Iterator[Order]:
    def choose(values: Sequence[str]) -> str:
        return values[int(generator.integers(len(values)))]

    while True:
        goods = [str(name) for name in generator.permutation(GOODS)]
        wanted = goods[: 1 + (generator.random() < _TWO_GOODS)]
        words, signs = list[str](), list[str]()
        thanks = choose(THANKS)
        if generator.random() < _HELLO:
            words.append("hello")
            signs.append("hello")
        if thanks == "please":
            signs.append("please")
        if generator.random() < _NO:
            words += ["no", goods[-1]]
            signs += [goods[-1], "no"]
        request = choose(tuple(REQUESTS))
        words += request.split()
        for number, name in enumerate(wanted):
            size = choose(SIZES)
            words += ["and"] * bool(number) + ["a"] + [size] * bool(size) + [name]
            signs += [name] + [size] * bool(size)
        signs += REQUESTS[request]
        if thanks == "thank you":
            signs.append("thank-you")
        words += thanks.split()
        yield Order(" ".join(words), tuple(signs))
