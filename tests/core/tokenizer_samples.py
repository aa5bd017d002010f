"""Text to train small tokenizers on and to send through them: thirteen scripts, emoji, control characters."""

from __future__ import annotations

SENTENCES = [
    "The quick brown fox isn't slower than 13.5 dogs, is it? No!",
    "Größere Straßen führen über den Fluss; naïve façade, señor.",
    "Η θάλασσα είναι ήρεμη σήμερα το πρωί.",
    "Сегодня утром море спокойно, а ветер слабый.",
    "البحر هادئ هذا الصباح والريح خفيفة.",
    "הים רגוע הבוקר והרוח קלה.",
    "आज सुबह समुद्र शांत है और हवा हल्की है।",
    "เช้านี้ทะเลสงบและลมเบา",
    "ზღვა დღეს დილით მშვიდია.",
    "Ծովը այսօր առավոտյան հանգիստ է։",
    "오늘 아침 바다는 잔잔하고 바람은 약하다.",
    "今天早上海面平静,风很小。",
    "今朝の海は穏やかで、カモメが飛んでいる。",
    "ዛሬ ጠዋት ባሕሩ ጸጥ ብሏል።",
    '{"name": "Ada", "tags": ["x", "y"], "n": -1.5e+3}\n',
    "def f(x):\n\treturn  x  +  1\n",
]

#: Texts that tokenizers often get wrong, for those that can spell every byte.
HARD = [
    "😀👩\u200d👩\u200d👧🏽 🇺🇦",
    "\x00\x01\x1f\x7f\x80\xa0\xad\u200b\ufeff",
    "cafe\u0301 A\u030a \u1e9b\u0323",
    "Ġ Ċ ĉ <0x41> ## </w> <s> <unk>",
    "  two  and   three   spaces  ",
    "\U0010ffff\ue000\ud7ff",
    "",
    " ",
    "\n\n\r\n",
]

CORPUS = SENTENCES * 4
