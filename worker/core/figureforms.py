"""The forms in which people and models write figures, as one pattern.

The order of the alternatives is the policy: what is no figure first (numbering, idioms), then dates
and times, then shares, identifiers, and last plain numbers with what follows them. Every repetition
is bounded, so reading is linear in the length of the text.
"""

from __future__ import annotations

import re

from worker.core.numerals import CHINESE_DIGITS, ENGLISH_UNITS, ENGLISH_WORDS

# What is written wide, or in the numerals of cheques, is read like the plain form.
_WIDE_FORMS = "０１２３４５６７８９％．￥：＋－～，壹贰叁肆伍陆柒捌玖拾佰仟萬"
FLAT = str.maketrans(_WIDE_FORMS, "0123456789%.¥:+-~,一二三四五六七八九十百千万")

_C = CHINESE_DIGITS
_DIGITS = (
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]+"
    r"|[0-9]{1,3}(?:[ \u00a0\u202f'][0-9]{3})+(?:\.[0-9]+)?(?![0-9])"
    r"|[0-9]+,[0-9]{1,2}(?![0-9,]|\.[0-9])|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
)
_CHINESE = rf"[{_C}十](?:[{_C}十百万亿]|千(?![瓦克米卡帕赫伏焦])){{0,30}}(?:点[{_C}]{{1,30}})?"
_MONTH = (
    r"(?:[Jj]an(?:uary)?|[Ff]eb(?:ruary)?|[Mm]ar(?:ch)?|[Aa]pr(?:il)?|May|[Jj]une?|[Jj]uly?"
    r"|[Aa]ug(?:ust)?|[Ss]ept?(?:ember)?|[Oo]ct(?:ober)?|[Nn]ov(?:ember)?|[Dd]ec(?:ember)?)\.?"
)
_MONTH_ALONE = (
    r"(?:January|February|March|April|June|July|August|September|October|November|December"
    r"|(?:(?<=in )|(?<=by )|(?<=mid-)|(?<=of )|(?<=early )|(?<=late )|(?<=since )|(?<=until ))"
    r"(?:May|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b)"
)
_CODES = r"USD|CNY|RMB|HKD|EUR|GBP|JPY|US|HK"
_SCALE = (
    r"(?P<scale>[ ]?(?:[多余来](?=[万亿]))?(?:百万|千万|万亿|百(?!分)|千(?![瓦克米卡帕赫伏])|万(?!分)|亿)"
    r"|[ ]?(?:hundred|thousand|million|billion|trillion|grand|lakh|crore)\b|(?:[kKMBT]|bn|mn)(?![A-Za-z]))?"
    r"(?P<small>m(?![A-Za-z0-9/]))?"
)
_PER = r"(?P<per>[ ]?(?:%|per[ ]?cent\b|percentage[ ]points?\b|个?百分点))?"
_ENGLISH_SPAN = (
    r"milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|hours?|hrs?|h"
    r"|(?:(?:business|working|calendar)[ ])?days?|nights?|weeks?|months?|years?|yrs?"
)
_CHINESE_SPAN = (
    r"毫秒|秒钟?|分钟|个?小时|个?钟头|个?工作日|天|晚(?![上饭会点餐间安于些])|个?星期|个?礼拜"
    r"|周(?!一|二|三|四|五|六|日|末|年|岁)|个月|年(?![0-9初底末级度])"
)
_ENGLISH_UNIT = (
    r"km²|m²|ft²|km2|m2|square[ ](?:kilomet(?:er|re)s?|met(?:er|re)s?|miles?|f(?:ee|oo)t)|sq\.?[ ]?(?:ft|km|mi|m)"
    r"|acres?|hectares?|kcal|kJ|calories|km/h|kmh|kph|m/s|mph|knots?|kWh|MWh|kilomet(?:er|re)s?|met(?:er|re)s?|miles?|feet|foot|inch(?:es)?"
    r"|kilo(?:gram)?s?|grams?|milligrams?|tonnes?|tons?|ounces?|lit(?:er|re)s?"
    r"|km|cm|mm|kg|mg|g|lbs?|oz|ft|mi|ml|[KMGT]B|G(?![A-Za-z0-9])|t|°[ ]?[CF]|m(?![/²³])"
)
_CHINESE_UNIT = (
    r"平方公里|平方千米|平方米|平方英尺|平米|公顷|千卡|大卡|千焦|公里/小时|公里|千米|里(?![面头边程外])|厘米|公分|毫米|米(?![饭粒])|英里|英尺|英寸|公斤|千克|毫克|克|市斤|斤|吨|磅|盎司"
    r"|毫升|升(?!高|至|到|降|幅|值|级)|千瓦时|度电|℃|℉|摄氏度|华氏度"
)
_SPAN = (
    rf"(?P<span>[ -]?(?:{_CHINESE_SPAN}|{_CHINESE_UNIT}"
    rf"|(?:{_ENGLISH_SPAN}|{_ENGLISH_UNIT})(?![A-Za-z])))?"
)
_COIN = (
    rf"(?P<coin>[ ]?(?:人民币|美元|美金|港元|欧元|日元|英镑|元|块|(?:{_CODES})(?![A-Za-z])"
    r"|dollars?\b|yuan\b|euros?\b|cents?\b|rupees?\b|yen\b|pounds?\b))?"
)
_TAIL = _SCALE + _PER + _SPAN + _COIN
_ENGLISH = (
    rf"(?i:(?:{ENGLISH_WORDS})(?![A-Za-z])"
    rf"(?:[ -](?:and[ ])?(?:{ENGLISH_WORDS}|{ENGLISH_UNITS})(?![A-Za-z])){{0,12}}"
    rf"(?:[ ]point(?:[ ](?:{ENGLISH_WORDS})(?![A-Za-z])){{1,6}}|[ ]and[ ]a[ ]half(?![A-Za-z]))?"
    rf"(?:[ ](?:{ENGLISH_UNITS})(?![A-Za-z]))?)"
)
_UNITS = (
    rf"(?:[kKMBT]|bn|mn|ms|s|secs?|mins?|h|hrs?|d|x|km/h|kmh|mph|km|kg|mg|g|m|cm|mm|ml|lbs?|oz|ft"
    rf"|[KMGT]B|G|kWh|C|F|p|pts?|bps?|t|st|nd|rd|th|[ap]m|w|{_CODES})"
)
_GLUED = rf"(?:(?:{_CODES})?{_DIGITS}{_UNITS}?(?:-[A-Za-z]+)?)(?![A-Za-z0-9_]|[.:-][A-Za-z0-9])"
# What follows the range 10-12, but not the date 10-12.
_UNITED = (
    r"[ ]?(?:[元块美万亿%个件股天秒分小度℃°年月周米公千克斤升]|min|sec|hour|day|week|month|per|doll"
    r"|[A-Z]{3}\b)"
)

_NO_FIGURES = r"""
    (?P<numbering>^[ \t>#*•-]*(?:[0-9]{1,2}[.)、](?![0-9])|[((][0-9]{1,2}[))])
        |(?<=[;,。:、\s])[0-9]{1,2}[))、](?![0-9])(?=[ ]?[^\s0-9,.;。]))
  | (?P<idiom>(?:UTC|GMT)[+-][0-9]{1,2}(?::?[0-9]{2})?|24/7|7[x×]24(?:[ ]?小时)?
        |'[0-9]{2}(?![0-9A-Za-z'])|十分(?![钟之0-9])|千万(?=[别不要请勿])|万一|百分百|双(?:十[一二]|1[12]))
  | (?P<url>https?://[^\s<>()()"',。]+)
"""
_DATES = rf"""
    (?<![0-9])(?P<y1>[0-9]{{4}})[-/.](?P<m1>[0-9]{{1,2}})[-/.](?P<d1>[0-9]{{1,2}})(?![0-9])
        (?:T(?=[0-9]))?
  | (?<![0-9.])(?P<d14>[0-3]?[0-9])\.(?P<m14>[01]?[0-9])\.(?P<y14>(?:19|20)[0-9]{{2}})(?![0-9]|\.[0-9])
  | (?<![0-9/])(?P<m5>[0-9]{{1,2}})/(?P<d5>[0-9]{{1,2}})/(?P<y5>[0-9]{{4}})(?![0-9])
  | (?:(?<![0-9])(?P<yq1>20[0-9]{{2}})[ ]?[-年]?[ ]?)?
        (?:Q(?P<q1>[1-4])(?![0-9A-Za-z])|第?(?P<q2>[一二三四1-4])季度
        |(?P<q3>first|second|third|fourth)[ ]quarter)(?:(?:[ ]|[ ]of[ ])(?P<yq2>20[0-9]{{2}}))?
  | (?P<y2>[0-9]{{4}}|[{_C}]{{4}})[ ]?年(?:[ ]?(?P<m2>[0-9]{{1,2}}|[{_C}十]{{1,3}})[ ]?月
        (?:[ ]?(?P<d2>[0-9]{{1,2}}|[{_C}十]{{1,3}})[ ]?[日号])?)?
  | (?P<m3>(?<![0-9.])[0-9]{{1,2}}|(?<!个)[{_C}十]{{1,3}})[ ]?月(?!份?[票卡租])
        (?:[ ]?(?P<d3>[0-9]{{1,2}}|[{_C}十]{{1,3}})[ ]?[日号])?
  | (?<![0-9.])(?P<d4>[0-9]{{1,2}})[ ]?[日号](?!线|楼|柜|店|门|院|桌|座|床|机|位)
  | (?<![{_C}十第])(?P<d13>[{_C}十]{{1,3}})号(?![码召称令])
  | \b(?P<m6>{_MONTH})[ ](?P<d6>[0-9]{{1,2}})(?:st|nd|rd|th)?(?![0-9%]|:[0-9]|,[0-9]{{3}}(?![0-9]))(?:,?[ ](?P<y6>[0-9]{{4}}))?
  | \b(?P<d7>[0-9]{{1,2}})(?:st|nd|rd|th)?[ ](?:of[ ])?(?P<m7>{_MONTH})(?:,?[ ](?P<y7>[0-9]{{4}}))?
        (?![A-Za-z])
  | \b(?P<m8>{_MONTH})[ ](?P<y8>[0-9]{{4}})(?![0-9])
  | \b(?P<m11>{_MONTH_ALONE})(?![A-Za-z])
  | (?<![0-9-])(?P<y12>(?:19|20)[0-9]{{2}})-(?P<m12>0[1-9]|1[0-2])(?![0-9-])
  | (?<![0-9.-])(?P<m9>0[1-9]|1[0-2])-(?P<d9>0[1-9]|[12][0-9]|3[01])(?![0-9.-]|{_UNITED})
  | (?<![0-9/.])(?P<m10>0?[1-9]|1[0-2])/(?P<d10>0?[1-9]|[12][0-9]|3[01])(?![0-9/]|\.[0-9]|{_UNITED})
"""
_DAYS = r"""
    (?P<day>大?后天|(?<![说声证])明[天晚早日]|今晚|昨[天晚日]|前天|[上下]下?个?(?:周|星期|礼拜)(?:[一二三四五六日天末])?
        |(?<![0-9一两二三四五六每])(?:周|星期|礼拜)[一二三四五六日天末](?!次)|下个?月[初底中]?|月[底初](?=[前会到送])|下个?季度|[上下]半年
        |明年|年底
        |\b(?i:tomorrow|tonight|yesterday|last[ ]night|(?:this[ ]|next[ ]|the[ ])?weekend
        |next[ ](?:week|month|year|quarter)|(?:mon|tues|wednes|thurs|fri|satur|sun)day)s?\b)
"""
_HOUR_WORDS = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_TIMES = rf"""
    (?<![0-9])(?:(?<![0-9]:)|(?<=[A-Z][0-9]:)|(?<=[A-Z][0-9]{{2}}:)|(?<=[A-Z][0-9]{{3}}:)|(?<=[A-Z][0-9]{{4}}:))(?P<H1>[0-9]{{1,2}}):(?P<M1>[0-5][0-9])(?::(?P<S1>[0-5][0-9])(?:\.[0-9]+)?)?
        (?:[ ]?[aApP]\.?[mM]\b\.?|Z|\+[0-9]{{2}}:[0-9]{{2}}|(?(S1)-[0-9]{{2}}:[0-9]{{2}}|(?!)))?(?![0-9]|:[0-9]{{1,2}}(?![0-9.]))
  | (?<![0-9.])(?P<H2>[0-9]{{1,2}}|[{_C}十]{{1,3}})[ ]?[点时][ ]?
        (?P<M2>[0-9]{{1,2}}|[{_C}十]{{1,3}})[ ]?分(?!钟)
  | (?<![0-9.])(?:(?<=上午)|(?<=下午)|(?<=晚上)|(?<=今晚)|(?<=明晚)|(?<=早上)|(?<=清晨)|(?<=凌晨)|(?<=中午)|(?<=次日)|(?<=明早)|(?<=明天)|(?<=今天)|(?<=昨天)
        |(?<=傍晚)|(?<=早晨))[ ]?(?P<H3>[0-9]{{1,2}}|[{_C}十]{{1,3}})[ ]?[点时]
        (?:(?P<half3>半|[一三]刻)|整|(?P<M3>[零〇]?[{_C}十]{{1,3}}|[0-9]{{2}})分?)?
  | (?<![0-9.])(?P<H5>[0-9]{{1,2}}|[{_C}十]{{1,2}})[ ]?点(?:(?P<half5>半|[一三]刻)|整|钟
        |(?P<M5>[零〇][{_C}]|[{_C}]?十[{_C}]?)(?![{_C}百千万]))
  | (?<![0-9.])(?P<H6>[0-9]{{1,2}})[ ]?点(?![0-9数击赞评建意理原要说注开心]|内容)
  | (?<![{_C}十百千万第])(?P<H7>[{_C}十]{{1,2}})点(?=左右|前|后|到|出发|[开关]|起|发车|以[前后]|之[前后]|结束|集合|下班|上班|关门)
  | (?<![0-9.:])(?P<H4>[0-9]{{1,2}})(?:\.(?P<M4>[0-5][0-9]))?[ ]?(?:[aApP]\.?[mM]\b)
  | \b(?i:by|before|until|till)[ ](?P<H11>[0-9]{{1,2}})(?![0-9:%/]|[.,][0-9]|[ ]?[A-Za-z$\u3400-\u9fff])
  | \b(?i:(?P<H8>{_HOUR_WORDS})[ ][ap]\.?m\b|(?P<H9>{_HOUR_WORDS}|[0-9]{{1,2}})[ ]o'clock)
  | \b(?i:(?P<M10>half|(?:a[ ])?quarter|twenty-five|{ENGLISH_WORDS}|[0-9]{{1,2}})(?:[ ]minutes)?[ ]
        (?P<to10>past|to(?=[ ](?:noon|midnight)|(?<=quarter[ ]to)|(?<=at[ ]ten[ ]to)|(?<=at[ ]five[ ]to)
            |(?<=at[ ]twenty[ ]to)))
        [ ](?P<H10>{_HOUR_WORDS}|noon|midnight|[0-9]{{1,2}})\b(?![:.][0-9]|[ ]?%))
  | \b(?P<noon>(?i:noon|midday|midnight))\b
"""
_SHARES = rf"""
    (?P<den>百|千|万|[{_C}十]{{1,3}}|[0-9]{{1,5}})分之(?P<cper>{_CHINESE}|{_DIGITS})
  | (?P<tenths>[{_C}0-9])成(?P<tenths2>[{_C}半])?(?![功为立员果本交绩长不分人品])
  | (?i:\b(?P<outof>two|three|four|five|six|seven|eight|nine)[ ]in[ ](?P<ofall>three|four|five|six|seven|eight|ten)\b
    |\bone[ ](?:[a-z]{2, 12}[ ])?in[ ](?:every[ ])?(?P<onein>{_ENGLISH}|[0-9]{{1,5}})\b
    |\b(?P<parts>an?|one|two|three|four)[ -](?P<nth>third|quarter|fifth|sixth|eighth|tenth)s?\b
        (?=[ ](?:of|to|less|more|cheaper|off|longer|lower|higher)\b|(?<=s)))
  | (?P<halves>一半(?!以)|半数|\b(?i:half[ ](?:of|the|as|are))\b)
  | \b(?i:half[ ]a[ ](?P<halfscale>million|billion|thousand|dozen))\b
  | \b(?i:an?[ ](?P<onescale>million|billion|thousand|hundred|dozen))\b(?![ ](?:thanks|times|things))
  | 零下(?P<below>[{_C}十]{{1,3}}|[0-9]{{1,2}})(?=[ ]?[度℃摄])
  | \b(?i:(?:low|mid|high|upper)[- ](?P<decade>twen|thir|for|fif|six|seven|eigh|nine)ties)\b
  | (?P<fold>翻(?:了)?[一两]番|翻番|翻倍|\b(?i:doubled|tripled|halved|quadrupled)\b)
  | (?<![A-Za-z0-9.])(?P<times>{_DIGITS})(?:x(?![A-Za-z0-9])|[ ]?倍)
"""
_HALVES = rf"""
    (?P<halfthing>(?<!一)半(?=[片粒盒瓶斤袋杯勺箱]|公斤))
  | (?P<halfwhole>[{_C}十]|[0-9]{{1,3}})?(?P<half>个半|半个?)(?P<halfspan>小时|钟头|月|星期|天|年|分钟)
  | (?P<plushalf>[{_C}十]{{1,3}}|[0-9]{{1,3}})(?:个)?(?P<plusspan>小时|天|年|岁|分钟)半
  | (?P<ticks>[一两三])刻钟|(?<![A-Za-z0-9])(?:PT)?(?P<hh>[0-9]{{1,3}})[hH](?P<mm>[0-9]{{1,2}})(?:[mM](?:in)?)?(?![A-Za-z0-9])
  | \b(?i:(?:another|(?<=takes[ ])an?|(?<=about[ ])an?)[ ](?P<another>hour|minute|day|week|month|year)(?![ ]and[ ]a)|an?[ ](?P<ago>hour|week|month|year)[ ]ago)\b
  | \b(?i:half[ ]an?[ ](?P<halfof>hour|minute|day|year)
    |an?[ ](?P<andhalf>hour|minute|day|week|month|year)[ ]and[ ]a[ ]half
    |(?:a[ ]|three[ ])?quarters?[ ]of[ ]an[ ](?P<quarterof>hour))\b
"""
_CHINESE_TAIL = (
    rf"(?:个(?=[多几来余](?:小时|钟头|月|星期|礼拜)))?(?P<cmore>[多几来余](?!少))?(?:(?<=[多几来余])(?P<cbig>[万亿]))?(?P<cspan>[ ]?(?:{_CHINESE_SPAN}|{_CHINESE_UNIT}))?"
    rf"(?P<ctail>[ ]?(?:%|人民币|美元|美金|港元|欧元|日元|英镑|元|块|度|倍|折|岁|级|盒|瓶|片|粒|箱|层|楼|包|袋|杯|分贝|[个名位本辆间张台场架次](?!月|半|人)))?"
    rf"(?:(?P<cjiao>[{_C}0-9])(?:[角毛](?:(?P<cfen>[{_C}0-9])分?)?|(?<=块[{_C}0-9])(?![十百千个只件盒瓶片张份位人斤袋箱本次天晚支条公])))?"
)
# Two ways and two reasons are words; two copies may be what nobody told.
_NO_THINGS = (
    r"(?:ways?|reasons?|options?|things|points?|of|is|was|has|does|times|others?|steps?|sides|thirds|us|this"
    r"|attempts?|tries|tools?|sources?|results?|questions?|parts?|answers?|items?|values?|figures?|metrics|numbers|prices|quotes|records|entries|requests|calls|pieces)\b"
)
_NUMBERS = rf"""
    (?P<phone>(?<![0-9.])(?:[0-9]{{3,4}}(?:-[0-9]{{3,12}}){{2,8}}|\+[0-9]{{1,3}}(?:[ -][0-9]{{2,12}}){{1,8}}
        |[0-9](?:-[0-9]){{3,12}}|1[3-9][0-9][ ][0-9]{{4}}[ ][0-9]{{4}}
        |[0-9]{{3}}[ ][0-9]{{3}}[ -][0-9]{{4}}|[0-9]{{3,4}}-[0-9]{{4}}-[0-9]{{4}})(?![0-9]))
  | (?P<digits>(?<=[限是为选号])[{_C}](?:[、和][{_C}]){{1,6}}(?=[。,;\n]|$))
  | (?P<score>\b(?:{ENGLISH_WORDS}|[0-9]{{1,3}})-nil\b)
  | (?P<word>(?<![A-Za-z0-9_])(?!{_GLUED})(?=[0-9_.:-]{{0,80}}[A-Za-z_])(?=[A-Za-z_.:-]{{0,80}}[0-9])
        [A-Za-z0-9_]+(?:[.-][A-Za-z0-9_]+|:[A-Za-z_][A-Za-z0-9_]*)*)
  | (?:(?P<sign>[¥$€£]|(?<![A-Za-z])(?:{_CODES})[ ]?\$?)[ ]?)?(?P<number>{_DIGITS}){_TAIL}
  | \b(?P<english>{_ENGLISH})(?![A-Za-z])(?P<odd>-(?:odd|some|ish))?
        (?P<etail>[ -](?:dollar|yuan|euro|cent|pence|pound|rupee|yen|quid|degree|per[ ]?cent|point|goal|beat|star|seat|room|floor
        |share|pill|tablet)\w*)?
        (?P<espan>[ -](?:{_ENGLISH_SPAN}|{_ENGLISH_UNIT})(?![A-Za-z]))?(?P<things>[ ](?!{_NO_THINGS})(?:people|children|[a-z]{{2,20}}s)\b)?
  | (?P<mao>[{_C}1-9])[角毛](?P<maofen>[{_C}1-9])?(?![{_C}虽巾病])
  | (?P<chinese>{_CHINESE}){_CHINESE_TAIL}
"""
# Where nothing can begin, the many alternatives need not be tried one by one.
_START = rf"(?=[0-9¥$€£+'(_{_C}十百千万大后明今昨前上下周星礼月年半翻第个双]|[A-Za-z](?<![A-Za-z][A-Za-z]))|^"
PATTERN = re.compile(
    f"(?:{_START})(?:{'|'.join((_NO_FIGURES, _DATES, _DAYS, _HALVES, _TIMES, _SHARES, _NUMBERS))})",
    re.VERBOSE | re.MULTILINE,
)
DATES = range(1, 15)
HOURS = range(1, 12)
RANGE = re.compile(r"\s*(?:[-–—~至到]|to|and)\s*")
TIMES = re.compile(r"\s*[x×*]\s*")
TOGETHER = re.compile(r"[ ]?(?:,|and|零|又)?[ ]?")
