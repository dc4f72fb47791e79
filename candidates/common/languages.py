"""Which language texts are in, by their function words: evidence that adds up over many texts.

Each language has a list of its most frequent words. A text votes for every language that has one of its words, so words
that two languages share (`die`, `der`, `er`) cancel out, and only the surplus of one language over all others counts. A
few hundred words are enough to tell German from Danish; "OK." is no evidence, and the result None, never a guess.

    >>> evidence = Evidence()
    >>> evidence.add(["OK."])
    >>> evidence.speaks("de") is None
    True
    >>> evidence.add(["Ich weiß nicht, wo er wohnt.", "Ich weiß nicht, wo er lebt."])
    >>> evidence.speaks("de"), evidence.speaks("fr")
    (True, False)
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from itertools import islice

from candidates.common.words import counted

TEXTS = 20  # read of each list of texts, at most
MOST_OF_A_WORD = 3.0  # votes: a language is seen by many of its words, not by one that all texts begin with
SURPLUS = 0.5  # votes by which a language must be ahead of every other one
AHEAD = 0.3  # and the share of its own votes
COVERAGE = 0.06  # and the share of all words that are function words of the language
DEFICIT = 2.0  # votes by which another language must be ahead of it to rule it out
CERTAIN = 8.0  # votes by which it is ahead when more texts would not change the answer
ANOTHER_SCRIPT = "another script"
LETTERS_OF_A_WORD = 3  # where the script is not Latin, its letters are the evidence

_WORD = re.compile(r"[^\W\d_]+")

_WORDS = {
    "en": """the a an of to and in is am was are were be been that it for on with as at by from he she they you we his
        her their our not have has had this i my me him them do does did don didn t s ll ve re isn doesn can
        could will would should what when where who why how there here if or but so no yes all one out up about
        your its than then which some any very more just like know want think get go went must never always
        please too""",
    "de": """der die das ein eine einen einem einer eines und zu in im ist war waren sind bin bist dass daß es für
        auf mit er sie du wir ich ihr ihm ihn ihre ihren sein seine nicht hat haben habe hatte hast den dem des
        von vom zum zur an am bei aus nach wie was wo wer wann warum wird werden wurde würde kann können muss
        will sich auch noch nur so als aber oder wenn um mir mich dir dich uns mein meine meinen dein deine kein
        keine keinen man sehr mehr hier da schon doch über unter vor durch gegen bitte diese dieser dieses
        diesen alle alles etwas nichts nie immer ja nein gibt ihnen unser""",
    "fr": """le la les l un une des et de d à au aux est était sont que qu il elle nous vous je j ne n pas pour avec
        dans son sa ses qui du en ce c cette sur se s on par plus mais tu ils elles mon ma mes y a ai été être
        sans où votre leur""",
    "es": """el la los las un una y de a al es era que él ella nosotros no para con en su sus yo por se lo del como
        más pero me te mi le les está son ha he muy si sí ser este esta qué hay o tu usted fue""",
    "it": """il lo la i gli le un una uno e ed di a al alla è era che lui lei noi non per con in nel nella suo sua io
        si del della dei delle da dal ho ha sono mi ti ci come più ma anche questo questa se cosa l""",
    "pt": """o a os as um uma e de é era que ele ela nós não para com em no na nos nas seu sua eu por se do da dos
        das ao mais mas me te meu minha está são foi você tem como isso este esta""",
    "gl": "o a os as un unha e de é era que el ela nós non para con en no na seu súa eu por se do da dos das máis pero",
    "ca": """el la els les l un una i de d a al és era que ell ella no per amb en seu seva jo es s del dels com més
        però em et va hi ha aquest aquesta són si""",
    "ro": """și în la de un o cu pe nu este era că el ea noi eu se lui din pentru sunt mai dar care ce am ai a au al
        ale fi sa să le îl îi acest această""",
    "nl": """de het een en van is was waren zijn dat hij zij ze wij we niet voor met op ik je jij u heeft hebben had
        te in aan om er maar ook als dan die deze dit bij uit naar wat hoe waar mijn haar hun geen nog wel kan
        wil moet zou door over tot t n""",
    "af": """die het n en van is was dat hy sy ons nie vir met op ek jy om te in aan wat sal kan moet word maar ook
        as hulle my baie hierdie deur nog by uit""",
    "lb": """de d den dem der am eng en e an ass war datt et hien si mir ech net fir mat op ze vun zu sech och wéi
        wat hunn huet sinn gëtt vum zum no bei awer oder dat dëst""",
    "fy": """de it in en fan is wie dat hy sy wy net foar mei op syn ik jo hat hawwe te oan om mar ek as dy dizze by
        út nei""",
    "da": """og i at det er en et den til på som de med han hun jeg du vi af for ikke har havde var der om sig men
        kan vil skal blev bliver mig dig min mit din dit sin hans hendes fra så når hvad hvor man eller også her
        nu ved efter vor over ud op dem os""",
    "no": """og i at det er en et ei den til på som de med han hun jeg eg du vi av for ikke ikkje har hadde var om
        seg men kan vil skal ble blir vart meg deg min mitt din ditt sin hans hennes fra frå så når hva kva hvor
        man eller også her nå ved etter over ut opp dem oss dei ho me der""",
    "sv": """och i att det är en ett den till på som de med han hon jag du vi av för inte har hade var om sig men kan
        vill ska skall blev blir mig dig min mitt din ditt sin hans hennes från så när vad man eller också här
        nu vid efter över ut upp dem oss""",
    "is": """og í að er það á sem ekki hann hún ég þú við með til af fyrir var hefur um en frá þess því þetta svo
        hafa eru vera sér mig mér þig þér einn eitt""",
    "fo": """og í at er tað á sum ikki hann hon eg tú vit við til av fyri var hevur um men frá hesum hetta so hava
        eru vera sær meg mær eitt""",
    "fi": """ja on ei se että en hän ole oli minä sinä me he mutta kun niin kuin myös tai jos vain mitä mikä joka
        ovat olen sen sitä minun hänen tämä kanssa""",
    "et": """ja on ei see et ma sa ta me nad oli kui aga ka mis kes siis või oma seda mu minu tema pole olen olid
        selle nii""",
    "lv": "un ir ka es tu viņš viņa mēs ne nav par ar uz no kas kā bet bija vai lai to tas šī man",
    "lt": "ir yra kad aš tu jis ji mes ne nėra su į iš kas kaip bet buvo ar tai šis man jo",
    "pl": """i w nie to jest się na z że do co jak za od po ja ty on ona my jego jej ale był była czy tak dla o ma są
        mnie go już tym""",
    "cs": """a v je to se na že s do co jak za od po já ty on ona my jeho ale byl byla ne není si jsem jsi by pro o
        má mě ve i z""",
    "sk": """a v je to sa na že s do čo ako za od po ja ty on ona my jeho ale bol bola nie si som by pre o má ma vo
        aj i z""",
    "sl": "in v je to se na da s z do kaj kako za od po jaz ti on ona mi ali bil bila ne ni sem si bi o ima pa so",
    "hr": "i u je to se na da s za od po ja ti on ona mi ali bio bila ne nije sam si bi o ima su što kao koji iz biti",
    "hu": """a az és nem hogy egy van volt ez de meg én te ő mi ha csak már mint ki mit vagy el fel ezt azt nekem
        lesz""",
    "tr": "ve bir bu da de için ne çok o ben sen biz değil mi var daha gibi ile ama en kadar olarak benim sonra",
    "id": """yang dan di itu ini tidak dengan untuk dari dalam akan ada saya dia kami kita pada juga ke bisa telah
        adalah""",
    "vi": "và của là không có tôi một những người cho được trong này anh đã các với để đó cô rằng ở",
    "eo": "la de kaj en estas mi ne li ŝi ni ke al por kun sur tio ĉi vi ili estis kiu kio se pri sed",
    "la": "et in est non ad ut cum sed qui quae quod ex de a ab si sunt esse per hoc nec atque",
    "sq": "dhe në të e i një është nuk për me që nga si më u ka ai ajo por do kam jam se",
    "ga": "agus an na ar is tá ní go bhí sé sí mé tú le i do ag ach atá leis nach",
    "cy": "y yr a ac yn i o ar mae ei eu gan am nid ddim oedd roedd fod wedi hi fe",
    "eu": "eta da ez bat du zen dira ere nik zuk hori hau baina izan dut dute den egin",
    "sw": "na ya wa kwa ni katika la za kuwa hii si yake huu lakini cha kama mimi wewe yeye sana",
    "tl": "ang ng sa na mga ay at hindi ko siya ako niya ni kay para si ka mo ito po",
}


class Evidence:
    """Votes for languages, from one list of texts after another.

    Letters that are not Latin vote for another script, which rules out every language listed here.
    """

    def __init__(self) -> None:
        self._votes: dict[str, float] = defaultdict(float)
        self._counts: dict[str, float] = defaultdict(float)
        self._function_words: dict[str, float] = defaultdict(float)

    def add(self, texts: Iterable[str]) -> None:
        """Add a list of texts in one language, such as the candidates for one source, which count as one text."""
        texts = list(islice(texts, TEXTS))
        for text in texts:
            for word in set(_WORD.findall(unicodedata.normalize("NFC", text).casefold())):
                share = 1 / len(texts)
                counted = max(min(share, MOST_OF_A_WORD - self._counts[word]), 0.0)
                self._counts[word] += share
                for language in function_words().get(word, ()):
                    self._votes[language] += counted
                    self._function_words[language] += share
                if foreign := sum(not unicodedata.name(letter, "").startswith("LATIN") for letter in word):
                    self._votes[ANOTHER_SCRIPT] += counted * foreign / LETTERS_OF_A_WORD

    def ahead(self, language: str) -> float:
        """By how many votes the language is ahead of every other one; negative where one is ahead of it."""
        others = (count for other, count in self._votes.items() if other != language)
        return self._votes.get(language, 0.0) - max(others, default=0.0)

    def speaks(self, language: str) -> bool | None:
        """Whether the texts are in this language; None where the evidence is too weak to say."""
        ahead, votes = self.ahead(language), self._votes.get(language, 0.0)
        if ahead >= max(SURPLUS, AHEAD * votes):
            covered = self._function_words[language] >= COVERAGE * sum(self._counts.values())
            return True if covered else None
        return False if -ahead >= max(DEFICIT, AHEAD * (votes - ahead)) else None

    def certain(self, language: str) -> bool:
        """Whether there is an answer that more texts of the same kind would not change."""
        return self.speaks(language) is not None and abs(self.ahead(language)) >= CERTAIN

    def __str__(self) -> str:
        """The languages with the most votes, for messages."""
        leading = sorted(self._votes.items(), key=lambda item: -item[1])[:3]
        shown = ", ".join(f"{language} {count:.0f}" for language, count in leading if count >= 0.5)
        return f"{counted(len(self._counts), 'word')}; votes for languages: {shown or 'none'}"


@cache
def function_words() -> dict[str, tuple[str, ...]]:
    """The languages of each function word."""
    table: dict[str, list[str]] = {}
    for language, words in _WORDS.items():
        for word in dict.fromkeys(words.split()):
            table.setdefault(word, []).append(language)
    return {word: tuple(languages) for word, languages in table.items()}
