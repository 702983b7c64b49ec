"""Sentences of the demo language: glosses in sign order with their French text.

Signs come in the order time, place, person, thing, action, then negation or question, as in LSF;
the French has its own order, and articles, agreement, elisions and conjugation that no sign shows.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

MOI, TOI, NOUS, ELLE, MAMAN = "MOI", "TOI", "NOUS", "ELLE", "MAMAN"
SUBJECTS = {MOI: "je", TOI: "tu", NOUS: "nous", ELLE: "elle", MAMAN: "maman"}
CLITICS = {MOI: "me", TOI: "te", NOUS: "nous", ELLE: "la"}  # "la" elides like "me" and "te"
TIMES = {"DEMAIN": "demain", "SOIR": "ce soir", "AUJOURDHUI": "aujourd'hui"}
PLACES = {"MAISON": "à la maison", "ECOLE": "à l'école", "MARCHE": "au marché"}

VOWELS = "aàâeéèêiîoôuûh"  # no word here begins with an aspirated h


@dataclass(frozen=True, slots=True)
class Noun:
    """A thing.

    word: French noun.
    feminine: Its gender.
    counted: Whether it is one of several ("une pomme") or some of a mass ("du pain").
    """

    word: str
    feminine: bool
    counted: bool


THINGS = {
    "PAIN": Noun("pain", feminine=False, counted=False),
    "EAU": Noun("eau", feminine=True, counted=False),
    "CAFE": Noun("café", feminine=False, counted=False),
    "SOUPE": Noun("soupe", feminine=True, counted=False),
    "POMME": Noun("pomme", feminine=True, counted=True),
    "LIVRE": Noun("livre", feminine=False, counted=True),
}

# Present tense: je, tu, elle, nous.
VERBS = {
    "ALLER": ("vais", "vas", "va", "allons"),
    "AIMER": ("aime", "aimes", "aime", "aimons"),
    "MANGER": ("mange", "manges", "mange", "mangeons"),
    "BOIRE": ("bois", "bois", "boit", "buvons"),
    "VOULOIR": ("veux", "veux", "veut", "voulons"),
    "ACHETER": ("achète", "achètes", "achète", "achetons"),
    "LIRE": ("lis", "lis", "lit", "lisons"),
    "DORMIR": ("dors", "dors", "dort", "dormons"),
    "ETRE": ("suis", "es", "est", "sommes"),  # has no sign
}
OBJECTS = {
    "MANGER": ("PAIN", "SOUPE", "POMME"),
    "BOIRE": ("EAU", "CAFE"),
    "VOULOIR": tuple(THINGS),
    "ACHETER": ("PAIN", "CAFE", "POMME", "LIVRE"),
    "LIRE": ("LIVRE",),
    "AIMER": tuple(THINGS),
}
# Where people do these things; the others have no place.
PLACES_OF = {
    "ALLER": ("MAISON", "ECOLE", "MARCHE"),
    "MANGER": ("MAISON", "ECOLE", "MARCHE"),
    "BOIRE": ("MAISON", "ECOLE", "MARCHE"),
    "ACHETER": ("MARCHE",),
    "LIRE": ("MAISON", "ECOLE"),
    "DORMIR": ("MAISON", "ECOLE"),
}
# Masculine, feminine, masculine plural. MOI, TOI and NOUS are written in the masculine.
ADJECTIVES = {
    "FATIGUE": ("fatigué", "fatiguée", "fatigués"),
    "CONTENT": ("content", "contente", "contents"),
}


@dataclass(frozen=True, slots=True, order=True)
class SignedSentence:
    """One sentence.

    glosses: Signs in the order of signing.
    text: French, lower case.
    kind: Which construction it is; sampling balances the kinds.
    """

    glosses: tuple[str, ...]
    text: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """What a clause says, before it is written in one of the two orders."""

    person: str
    action: str
    time: str | None = None
    place: str | None = None
    thing: str | None = None
    loved: str | None = None
    large: bool = False
    negated: bool = False
    asked: bool = False


def elide(word: str, following: str) -> str:
    """Join two words: je + aime is "j'aime", te + aime is "t'aime", la + eau is "l'eau"."""
    if following[0] in VOWELS:
        if word == "que":
            return "qu'" + following
        if word in {"je", "me", "te", "la", "le", "ne", "de"}:
            return word[0] + "'" + following
    return f"{word} {following}"


def definite(noun: Noun) -> str:
    """The pain in general: "le pain", "l'eau", "les pommes"."""
    if noun.counted:
        return f"les {noun.word}s"
    return elide("la" if noun.feminine else "le", noun.word)


def indefinite(noun: Noun, large: bool) -> str:
    """Some of it: "du pain", "de l'eau", "une pomme", "un grand livre"."""
    if noun.counted:
        adjective = ("grande " if noun.feminine else "grand ") if large else ""
        return ("une " if noun.feminine else "un ") + adjective + noun.word
    if not noun.feminine:
        return f"du {noun.word}"  # de + le
    return "de " + elide("la", noun.word)


def after_negation(noun: Noun, large: bool) -> str:
    """None of it: "de pain", "d'eau", "de grande pomme"."""
    adjective = ("grande " if noun.feminine else "grand ") if large else ""
    return elide("de", adjective + noun.word)


def glosses_of(clause: Clause) -> tuple[str, ...]:
    """Write a clause in sign order."""
    signs = [clause.time, clause.place, clause.person, clause.thing]
    signs += ["GRAND" if clause.large else None, clause.loved, clause.action]
    signs += ["NON" if clause.negated else None, "QUESTION" if clause.asked else None]
    return tuple(sign for sign in signs if sign)


def text_of(clause: Clause) -> str:
    """Write a clause in French."""
    subject = SUBJECTS[clause.person]
    if clause.action in ADJECTIVES:
        words = [*_verb_group(clause, "ETRE"), _agreed(clause)]
    else:
        words = [*_verb_group(clause, clause.action), *_object(clause)]
    if clause.place:
        words.append(PLACES[clause.place])
    if clause.time and clause.asked:
        words.append(TIMES[clause.time])
    statement = _join([subject, *words])
    if clause.asked:
        return _join(["est-ce", "que", statement]) + " ?"
    return f"{TIMES[clause.time]} {statement}" if clause.time else statement


def _join(words: list[str]) -> str:
    """Join words right to left with their elisions."""
    text = words[-1]
    for word in reversed(words[:-1]):
        text = elide(word, text)
    return text


def _verb_group(clause: Clause, verb: str) -> list[str]:
    """The verb with its negation and object pronoun, word by word."""
    row = {MOI: 0, TOI: 1, NOUS: 3}.get(clause.person, 2)
    words = [VERBS[verb][row]]
    if clause.loved in CLITICS:
        words.insert(0, CLITICS[clause.loved])
    return ["ne", *words, "pas"] if clause.negated else words


def _agreed(clause: Clause) -> str:
    column = {MOI: 0, TOI: 0, NOUS: 2}.get(clause.person, 1)
    return ADJECTIVES[clause.action][column]


def _object(clause: Clause) -> list[str]:
    if clause.loved == MAMAN:
        return ["maman"]
    if clause.thing is None:
        return []
    noun = THINGS[clause.thing]
    if clause.action == "AIMER":
        return [definite(noun)]
    return [(after_negation if clause.negated else indefinite)(noun, clause.large)]


@functools.cache
def sentences(max_signs: int) -> tuple[SignedSentence, ...]:
    """All sentences of 1 to `max_signs` signs, sorted."""
    everything = set(_greetings()) | {
        SignedSentence(glosses_of(clause), text_of(clause), kind) for kind, clause in _clauses()
    }
    return tuple(sorted(s for s in everything if len(s.glosses) <= max_signs))


def _greetings() -> Iterator[SignedSentence]:
    for word in ("bonjour", "merci"):
        sign = word.upper()
        yield SignedSentence((sign,), word, "greeting")
        yield SignedSentence((sign, MAMAN), f"{word} maman", "greeting")
    for gloss, noun in THINGS.items():
        text = "les " + noun.word + "s" if noun.counted else definite(noun)
        yield SignedSentence(("MERCI", gloss), f"merci pour {text}", "thanks")
    for kind, clause in _core():
        if kind in {"state", "going"} or clause.action == "VOULOIR":
            for is_question in (False, True):
                variant = replace(clause, asked=is_question)
                yield SignedSentence(
                    ("BONJOUR", *glosses_of(variant)), f"bonjour, {text_of(variant)}", "opening"
                )


def _core() -> Iterator[tuple[str, Clause]]:
    """Clauses without time, negation or question."""
    for person in SUBJECTS:
        for state in ADJECTIVES:
            yield "state", Clause(person=person, action=state)
        yield "sleep", Clause(person=person, action="DORMIR")
        for place in PLACES_OF["ALLER"]:
            yield "going", Clause(person=person, action="ALLER", place=place)
        for place in PLACES_OF["DORMIR"]:
            yield "sleep", Clause(person=person, action="DORMIR", place=place)
        for loved in SUBJECTS:
            if loved != person and {person, loved} != {MOI, NOUS}:
                yield "love", Clause(person=person, action="AIMER", loved=loved)
        for verb, nouns in OBJECTS.items():
            for noun in nouns:
                yield from _doing(Clause(person=person, action=verb, thing=noun))


def _doing(clause: Clause) -> Iterator[tuple[str, Clause]]:
    """A clause with a thing: general liking, or one act with or without place and size."""
    if clause.action == "AIMER":
        yield "liking", clause
        return
    yield "doing", clause
    if clause.action in {"VOULOIR", "ACHETER", "LIRE"} and THINGS[clause.thing or ""].counted:
        yield "large", replace(clause, large=True)
    for place in PLACES_OF.get(clause.action, ()):
        yield "doing", replace(clause, place=place)


def _clauses() -> Iterator[tuple[str, Clause]]:
    """All clauses: the core ones with and without time, negation or question."""
    for kind, core in _core():
        for time in (None, *TIMES):
            if time and kind in {"love", "liking"}:
                continue
            clause = replace(core, time=time)
            yield kind, clause
            yield f"{kind} not", replace(clause, negated=True)
            yield f"{kind} asked", replace(clause, asked=True)
