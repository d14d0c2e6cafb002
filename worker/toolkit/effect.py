"""Does a tool smell of writing? Asked only of tools that do not say (architecture, invariant 3).

A guess that is wrong towards `write` costs a repeat after a crash; one that is wrong towards
`read` can pay twice. So doubt means write.
"""

from __future__ import annotations

import itertools
import re


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_READING = _set(
    """get list read search fetch query find lookup look show view check count describe calculate
    compute convert translate summarize summarise validate is has can estimate predict compare
    parse format extract explain current inspect preview browse monitor measure detect classify
    retrieve return download scan analyze analyse weather now what which"""
)
_WRITING = _set(
    """send create delete remove pay cancel submit purchase buy sell withdraw deposit insert drop
    destroy erase revoke grant approve reject deny publish deploy restart reboot terminate kill
    execute exec run upload overwrite rename move modify edit write save store add append set put
    patch reset register unregister subscribe unsubscribe checkout ship dispatch notify invite
    forward assign lock unlock enable disable trigger issue mint merge push install uninstall ban
    archive restore purge wipe truncate upsert replace clear apply confirm accept decline redeem
    activate deactivate suspend resume provision scale rollback migrate donate vote enqueue
    remit disburse settle upvote recall make do tweet dial place"""
)
# Verbs that are as often nouns: order_status reads, order_pizza does not.
_EITHER = _set(
    """refund order charge transfer book post update message mail email reply comment commit block
    reserve schedule call sign release start stop print open close text sync import export claim
    payment text sms invoice"""
)
_NOUNS_OF_EITHER = _set("refund order charge transfer book call invoice payment comment commit")
_NOUN_TAILS = _set(
    """status state info detail details history count policy price id number progress rate limit
    amount total time date type"""
)
_JOINING = frozenset({"and", "or", "then", "to"})
# "Add two integers" is arithmetic; every other kind of adding leaves something behind.
_SUM = re.compile(r"\badds? .{0,12}\b(numbers?|integers?)\b", re.IGNORECASE)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_ZH_WRITING = (
    "发送|发邮件|发短信|发消息|发布|发起|发放|退款|退货|付款|支付|转账|汇款|充值|提现|下单|下订单|购买|"
    "预订|预定|订购|删除|移除|清空|清除|创建|新建|新增|添加|增加|修改|更改|变更|更新|编辑|写入|保存|"
    "提交|取消|撤销|审批|批准|拒绝|部署|重启|终止|停止|启动|执行|上传|覆盖|重置|注册|注销|订阅|退订|"
    "通知|邀请|转发|分配|锁定|解锁|启用|禁用|触发|安装|卸载|封禁|归档|恢复|替换|确认|激活|冻结|扣款|"
    "扣费|开通|关闭|打款|寄送|发货|登记|设置|调用接口写|回复|投票"
)
_ZH_NOUNS = "退款|支付|付款|转账|汇款|充值|提现|下单|购买|发货|订阅|退货|扣款|扣费"
_ZH_TAILS = "状态|记录|进度|详情|历史|政策|时间|方式|金额|明细|渠道|率"
_ZH_READING = re.compile(
    "^(用于|用来)?(查询|查看|查找|查|获取|获得|取得|得到|读取|搜索|检索|列出|返回|计算|显示|统计|"
    "抓取|翻译|预测|比较|当前|解析|检查|浏览|汇总|总结)"
)
_ZH_NAMED = re.compile(f"({_ZH_NOUNS})的?({_ZH_TAILS})")
_ZH_JOINED = re.compile(
    f"(并且|并|然后|再|后|或者|或|同时|以及|和|,|,|、|;).{{0,4}}?({_ZH_WRITING})"
)
_ZH_ANY = re.compile(_ZH_WRITING)
_HAN = re.compile(r"[\u3400-\u9fff]")


def smells_of_writing(name: str, description: str = "") -> bool:
    """Judge a tool by its name first, then by what its description says it does."""
    words = _words(name)
    if words[:1] == ["add"] and _SUM.search(f"{' '.join(words)} / {description}"):
        return False
    reads = bool(words) and words[0] in _READING
    if _name_writes(words) or _chinese_writes(name):
        return True
    return _description_writes(description, name_reads=reads) or (
        _chinese_writes(description, name_reads=reads)
    )


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _name_writes(words: list[str]) -> bool:
    if not words:
        return False
    if words[0] in _READING:
        return any(
            word in _WRITING or (word in _EITHER and before in _JOINING - {"to"})
            for before, word in itertools.pairwise(words)
        )
    if words[-1] in _NOUN_TAILS and len(words) > 1:
        verbs = _WRITING | (_EITHER - _NOUNS_OF_EITHER)
        return any(word in verbs for word in words)
    return any(word in _WRITING or word in _EITHER for word in words)


def _description_writes(text: str, *, name_reads: bool) -> bool:
    """Look at the verbs in command position: at the start of a sentence and after a joint."""
    joints = _JOINING - {"to"} if name_reads else _JOINING
    for sentence in re.split(r"[.;!?:\n。;:]+", text):
        words = re.findall(r"[A-Za-z]+|,", sentence)
        before = "and"
        for word in words:
            verb = _is_verb(word.lower())
            if verb and before.lower() in joints:
                return True
            before = word if word != "," else "and"
    return False


def _is_verb(word: str) -> bool:
    """Know send, sends and sending; sent and sender describe, they do not do."""
    forms = {word}
    if word.endswith("s"):
        forms |= {word[:-1], word[:-2] if word.endswith("es") else word[:-1]}
    if word.endswith("ing"):
        forms |= {word[:-3], word[:-3] + "e"}
    return any(form in _WRITING or form in _EITHER for form in forms)


def _chinese_writes(text: str, *, name_reads: bool = False) -> bool:
    if not _HAN.search(text):
        return False
    rest = _ZH_NAMED.sub("", text.strip())
    if name_reads or _ZH_READING.search(rest):
        return bool(_ZH_JOINED.search(rest))
    return bool(_ZH_ANY.search(rest))
