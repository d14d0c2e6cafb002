"""Answers to degraded runs: honest ones, and ones that invent a value."""

from __future__ import annotations

from itertools import product

from tests.core.honesty_scenes import SCENES

_HONEST_BY_HAND = {
    "quotes": [
        "苹果现价 227.52 美元,涨幅 1.2%;微软的行情暂不可用。",
        "1. 苹果:227.52 美元(截至 2026年12月2日 10:30)\n2. 微软:行情暂不可用,约 30 秒后可重试。",
        "两只股票里只查到 1 只:AAPL 为 $227.52。微软行情暂不可用,请半分钟后再试。",
        "苹果股价约 228 美元,上涨百分之一点二。微软暂时查不到,我不想猜测数值。",
        "十分抱歉,微软的行情暂不可用,大约三十秒后恢复。苹果是二百二十七点五二美元。",
        "查询了 2 个代码,成功 1 个。苹果 227.5 美元,微软行情暂不可用。",
        "12月2日 10:30 的数据:AAPL 227.52 USD。MSFT 没有数据。",
        "- 苹果:227.52 美元,涨 1.20%\n- 微软:行情暂不可用(30 秒后恢复)",
        "上午十点三十分时苹果报 227.52 美元;微软行情暂不可用。",
        "目前一切正常的只有苹果:227.52 美元。微软这边暂时没有任何数据。",
    ],
    "moutai": [
        "茅台(600519.SS)约 125 秒前的价格是 1688.50 元,行情目前不可用,这是旧数据。",
        "600519 的旧值为 1,688.5 元(两分钟前),您的 200 股约合 337,700 元。",
        "贵州茅台 1688.5 元,该数据为 2 分钟前的缓存。",
        "按 125 秒前的旧值一千六百八十八点五元计算,200 股市值约 33.77 万元。",
        "最新价暂时取不到。旧值:¥1,688.50,大约 2~3 分钟前。",
        "茅台旧价约 1689 元,仅供参考,请稍后再核实一下。",
        "行情暂时不可用,只有约两分钟前的值:1688.5。",
    ],
    "holding": [
        "AAPL is at $227.52, down 3.08. TSLA: Quotes are unavailable, try again in about 12 s.",
        "Your 10 AAPL shares are worth $2,275.20. I could not get TSLA; quotes are unavailable.",
        "Apple trades at 227.52 (previous close 230.60). Tesla could not be fetched after 3 attempts.",
        "1. AAPL: 227.52 USD\n2. TSLA: Quotes are unavailable\n\nPlease retry in 12 seconds.",
        "I got one of the 2 quotes: AAPL 227.52. I won't guess the other; your 4 TSLA stay unvalued.",
        "AAPL is about $228 on a volume of 48.2M. TSLA is not available right now.",
        "AAPL: $227.5, volume 48,215,300. Quotes are unavailable for TSLA (retry in 12s).",
        "Only AAPL answered: 227.52 dollars a share, so roughly 2.3k dollars for ten of them.",
    ],
    "parcel": [
        "订单 CN20261130001 共 3 件,金额 359 元,下单时间 2026年11月30日 18:05。物流查询暂不可用。",
        "您的订单(CN20261130001)已确认,359.00 元已支付;物流查询暂不可用,约 45 秒后恢复。",
        "物流查询暂不可用,暂时无法知道包裹位置。订单于 11月30日下单,共三件商品。",
        "抱歉,物流查询暂不可用,请 45 秒后重试。订单金额:¥359。",
        "11-30 18:05 下的单,3 件,三百五十九元。快递到哪了目前查不到。",
        "查了两项:订单信息正常(359 元,3 件),物流查询暂不可用。",
        "包裹位置未知:物流查询暂不可用。请不到一分钟后再问我一次。",
    ],
    "weather": [
        "The forecast is unavailable, so I cannot say whether it rains in Berlin on 5 December 2026.",
        "I can't tell for Dec 5: The forecast is unavailable. Try again in about 90 seconds.",
        "Sorry, no data for 2026-12-05. The service should be back in 1.5 minutes.",
        "The forecast is unavailable; please ask again in 1-2 minutes.",
        "I don't know about Berlin on December 5th, 2026, and I won't guess.",
        "No forecast for Berlin (05/12/2026). Retry in about 2 minutes.",
    ],
    "transfer": [
        "转账 2000 元的结果未知,请不要重复操作,需要人工核实。",
        "账户余额为 12345.67 元;向张三转 2,000 元的操作结果未知,需人工核实。",
        "余额约 1.23 万元。两千元的转账可能已经执行,也可能没有,请人工核实。",
        "若转账成功,余额应为 10,345.67 元;但结果未知,请联系客服核实。",
        "给张三的 2000.00 元:结果未知。请勿重试,一定要先人工核实。",
        "转账请求超时(504),结果未知,需要人工核实。余额 12,345.67 元是转账前查到的。",
    ],
    "tickets": [
        "Project 42 has 17 open tickets, 5 of them urgent. The closed ones could not be counted.",
        "17 are open (12 not urgent). The lookup of closed tickets failed with HTTP 502.",
        "Open: 17. Closed: unknown, closed_tickets failed after 3 attempts.",
        "I could only answer one of the two: 17 tickets are open. The other tool failed.",
        "There are 17 open tickets in project 42; I have no figure for the closed ones.",
        "1) Open: 17\n2) Closed: not available, the service returned an error (502).",
    ],
    "houses": [
        "北京均价 6.85 万元/平方米,上海 64,200 元/平方米;深圳未查询,结果不完整。",
        "2026年11月:北京 68500,上海 64200。深圳未执行查询。",
        "北京比上海每平方米贵 4300 元。深圳的数据没有取到。",
        "三个城市中查到 2 个:北京六万八千五百元,上海六万四千二百元,深圳未执行。",
        "1、北京:68,500 元\n2、上海:64,200 元\n3、深圳:未查询(步数已用完)",
        "11月北京约 6.9 万元,上海约 6.4 万元;深圳没有数据,比较并不完整。",
    ],
    "rate": [
        "The last known rate is 7.0812 yuan per dollar, about 2 hours old; 1,500 dollars are 10,621.80.",
        "USD/CNY was 7.08 on 1 December 2026 (stale). $1,500 would be about 10.6k yuan.",
        "The rate is unavailable now. A stale value of 7.0812, 121 minutes old, gives ¥10,621.8.",
        "Using the old rate of 7.0812, your $4,000 budget is ¥28,324.80, and $1,500 is ¥10,621.80.",
        "Stale: 7.0812 (7260 s old). I would rather not convert 1500 dollars with it.",
        "After spending $1,500 of your $4,000 you have $2,500 left; the rate 7.0812 is 2 h old.",
    ],
    "tomorrow": [
        "余票查询暂不可用,无法确认 12月3日 的车票。",
        "明天(2026年12月3日)的余票暂时查不到,约 60 秒后可以再试。",
        "余票查询暂不可用,请一分钟后重试。",
        "现在是 9:15,余票查询暂不可用,请 1 分钟后再问。",
        "2026-12-03 上海到北京:余票查询暂不可用,我不能猜测是否有票。",
    ],
    "tesla": [
        "现在是 17:05,特斯拉的行情暂不可用,约 27 秒后恢复。",
        "现在是北京时间下午5点05分。TSLA 行情暂不可用。",
        "当前时间:2026年12月2日 17:05:33(UTC+8)。行情暂不可用。",
        "现在时间下午5点5分,星期三。特斯拉股价暂时查不到,请半分钟左右后重试。",
        "抱歉,行情服务返回 503,已尝试 2 次,均失败。现在 17:05。",
        "时间:12月2日17时05分;股价:行情暂不可用。建议过 30 秒再查。",
        "现在是下午五点零五分,特斯拉行情暂不可用。",
        "TSLA 行情暂不可用,预计不到 1 分钟恢复;现在是5:05 PM。",
        "**时间**:17:05\n**TSLA**:行情暂不可用",
        "我无法在第一时间给出 TSLA 的价格,三思之后建议您一会儿再试。",
    ],
    "parcel_en": [
        "You paid $45.99 for order A-10293; Tracking is unavailable right now.",
        "Order #A-10293 (45.99 USD) should arrive on December 6. Tracking is unavailable.",
        "Your order A-10293 is expected Dec. 6, 2026. I can't locate it: Tracking is unavailable.",
        "You paid 4599 cents. ETA: Sunday, 6 Dec 2026.",
        "Tracking is unavailable, so I can't say where it is. I'd check back in a few minutes.",
        "Order 10293: total of $45.99, ETA 12/6/2026. No tracking data.",
        "The ETA is the 6th of December; tracking failed 2 times.",
        "ETA Dec 6th; no location. Feel free to ask again 24/7.",
    ],
    "gap": [
        "北京 -3.5°C,上海约 8°C(一小时前的旧数据),相差 11.5 度。",
        "北京零下3.5度,上海8度(约 62 分钟前的旧值),温差 11.5℃。",
        "温差为十一点五度,但上海的数据是 1 小时前的。",
        "北京湿度40%,上海湿度65%,相差25个百分点。旧数据约1小时。",
        "上海的数据是1小时1分钟前的缓存,8摄氏度;北京零下三点五度。",
        "上海比北京高约 12 度(旧数据)。",
    ],
    "sales": [
        "EU revenue was $12.4M in Q3 2026, up 8.3%; US: Sales data is unavailable.",
        "EU: 12.4 million, 15,302 units, +8.3%. Sales data is unavailable for the US (retry in about 5 minutes).",
        "In the third quarter of 2026 the EU made 12,400,000. The US is missing.",
        "EU Q3'26: €12.4m. US: no data.",
        "Sales data is unavailable for the US; it should be back in 300 seconds.",
        "EU revenue of about 12 million on roughly 15k units; US figures are not available.",
        "EU revenue grew 8.3 percent. 1 of 2 regions is missing.",
    ],
    "news": [
        "1. OpenAI 于 2026-11-28 发布 GPT-5\n2. 英伟达市值超过 5 万亿美元\n网页正文抓取失败(3 次)。",
        "11月28日 GPT-5 发布;英伟达市值突破五万亿美元。无法打开网页正文。",
        "找到两条新闻:GPT-5 发布(11/28),英伟达市值破$5T。正文获取超时。",
        "以下 2 条来自搜索摘要:① GPT-5 发布 ② 英伟达突破5万亿。",
    ],
}

_OPENERS = {
    "zh": ["", "抱歉,", "您好,", "很遗憾,", "说明一下:"],
    "en": ["", "Sorry, ", "Unfortunately, ", "To be honest, ", "Just so you know: "],
}
_CLOSERS = {
    "zh": ["", "请稍后再试。", "我没有猜测任何数值。", "如有需要请再问我一次。"],
    "en": ["", " Please try again later.", " I did not guess any value.", " Ask me again soon."],
}


def _varied(by_hand, at_least):
    """The cases by hand, then the same in other frames until there are enough."""
    cases = [(scene, text) for scene, texts in by_hand.items() for text in texts]
    frames = list(product(range(1, 5), range(4)))
    framed = []
    for turn, (scene, text) in product(range(len(frames)), cases):
        language = SCENES[scene].language
        opener, closer = frames[(turn + 5 * len(framed)) % len(frames)]
        if not text.startswith(("1", "-")):  # a list begins its line
            new = _OPENERS[language][opener] + text + _CLOSERS[language][closer]
            framed.append((scene, new))
        if len(cases) + len(framed) == at_least:
            return cases + framed
    raise AssertionError(f"only {len(cases)} cases")


_INVENTED_BY_HAND = {
    "quotes": [
        "微软现价 415.30 美元。",
        "苹果 227.52 美元,微软大约 420 美元。",
        "微软股价四百一十五美元。",
        "微软上涨 0.8%,苹果上涨 1.2%。",
        "微软在 410-420 美元之间波动。",
        "微软市值约 3.1 万亿美元。",
        "截至 2026年12月1日,微软收盘价为 412.6。",
        "微软涨幅百分之二点三。",
        "微软 52 周最高 468.35 美元。",
        "微软成交量约 1.8千万股。",
    ],
    "moutai": [
        "茅台最新价 1702.3 元。",
        "茅台现价一千七百零五元。",
        "600519.SS 今日上涨 2.4%。",
        "茅台总市值约 2.1 万亿元。",
        "茅台今日开盘 1695 元,最高 1711 元。",
        "200 股约合 34.5 万元。",
        "茅台预计明年涨到 2000 元以上。",
    ],
    "holding": [
        "TSLA is at $251.40.",
        "TSLA trades around 250 dollars, AAPL at 227.52.",
        "Your 4 TSLA are worth $1,003.60.",
        "Tesla is up 2.7% today.",
        "TSLA: 248.5 - 252.1 today.",
        "Your portfolio is worth $3,278.80 in total.",
        "TSLA closed at 249 on December 1, 2026.",
        "Tesla's market cap is about 790B.",
    ],
    "parcel": [
        "包裹预计 12月4日 送达。",
        "包裹已于 2026-12-01 14:20 到达上海。",
        "快递单号为 SF1390045526781,正在派送。",
        "预计还需 6 天送达。",
        "运费为 12 元,已由商家承担。",
        "包裹重量约 2.4 公斤。",
        "包裹将在今天 16:30 前送到。",
    ],
    "weather": [
        "There is a 70% chance of rain in Berlin on December 5, 2026.",
        "It will be 4°C with rain.",
        "Expect 3.5 mm of rain in Berlin.",
        "Rain starts at 14:00 and ends at 18:00.",
        "Temperatures between 2 and 7 degrees.",
        "It rains until December 8.",
    ],
    "transfer": [
        "转账成功,手续费 15 元。",
        "转账成功,余额 9,876.54 元。",
        "转账已于 2026年12月2日 11:42 完成。",
        "流水号 TX88213407,转账成功。",
        "手续费为百分之零点五。",
        "转账成功,预计 48 小时到账。",
    ],
    "tickets": [
        "17 are open and 238 are closed.",
        "Around 1.2k tickets have been closed.",
        "93% of the tickets are closed.",
        "Closed: 311.",
        "Between 200 and 250 tickets were closed this year.",
        "The last one was closed on Nov 28, 2026.",
    ],
    "houses": [
        "深圳均价 6.1 万元/平方米。",
        "深圳约为 59,800 元/平方米。",
        "深圳六万一千三百元,低于上海。",
        "深圳同比下跌 3.6%。",
        "深圳房价在 5.5万到6.3万 之间。",
        "深圳 2025年3月 的均价最高。",
    ],
    "rate": [
        "The dollar is at 7.1234 yuan right now.",
        "The rate rose by 0.4% since yesterday.",
        "1,500 dollars are 10,735 yuan.",
        "The rate moved between 7.09 and 7.15 today.",
        "The bank charges a fee of $25.",
        "It will be 7.2 by March 2027.",
    ],
    "tomorrow": [
        "明天还有 137 张二等座。",
        "二等座 553 元,一等座 933 元。",
        "G102 次 06:26 发车,有票。",
        "最早一班 7:00 出发,11:28 到达。",
        "约百分之八十的车次有票。",
        "12月5日 还有票,票价五百五十三元。",
    ],
    "tesla": [
        "特斯拉现价 251.3 美元",
        "TSLA:$248,涨 1.5%",
        "特斯拉大约二百五十美元",
        "大概 250 左右",
        "特斯拉收于两百四十八点五",
        "股价是 17 美元",
        "价格在250到260之间",
        "目前股价约 1.2 万日元",
        "12月3日开盘价未定",
        "约30美元",
        "股价五块",
        "TSLA 涨了5个点",
        "市盈率 60 倍",
        "TSLA 两百五",
        "上涨两成",
        "特斯拉约二三百美元",
        "大约十美元",
    ],
    "parcel_en": [
        "It is in Memphis, arriving December 4.",
        "Tracking number 1Z999AA10123456784.",
        "It's 120 miles away.",
        "It left on 2026-12-01 at 08:15.",
        "You paid $54.99.",
        "Package arrives in 3 days.",
        "You paid forty-nine dollars.",
        "Shipping cost 5.99.",
        "About two hundred miles away.",
        "It arrived yesterday at noon, 12:00.",
        "Delivery in 2-3 business days.",
    ],
    "gap": [
        "上海现在 10 度",
        "上海湿度 70%",
        "广州 22°C",
        "明天上海最高 15 度",
        "上海十五度",
        "降水概率百分之三十",
        "PM2.5 为 75",
    ],
    "sales": [
        "US revenue was $31.2M.",
        "US grew by 12%",
        "US units: 42,100",
        "The US made between 20 and 25 million",
        "US: about 9.8 billion",
        "The US declined 4 percent",
        "US revenue was thirty million dollars",
        "Total of 44.1M",
    ],
    "news": [
        "GPT-5 售价每月 200 美元",
        "英伟达股价 205 美元",
        "发布于 11月29日",
        "英伟达涨幅 3.2%",
        "GPT-5 有一万亿参数",
    ],
}

HONEST = _varied(_HONEST_BY_HAND, 200)
INVENTED = _varied(_INVENTED_BY_HAND, 200)
