"""A call of lua/ready_publish.lua that can be made again and again."""

# How long ids and locks are kept under the default policy, in milliseconds.
USUAL = ["86460000", "65000"]


def repeatable(cli, words):
    """The same call, made so that the feed holds after it what it must hold before: its own meta, the rows that it brings
    are those that leave, and a ledger that is never too long. Calls of other scripts stay as they are.
    `cli` sends a command and answers what redis-cli prints; `words` are EVALSHA and what follows."""
    keys = int(words[2])
    gifts, args = (keys - 8) // 2, words[3 + keys:]
    if len(args) < 12 or len(args[0].split()) != 9:
        return words
    ends = 8 + 4 * gifts
    stay = min(gifts, int(args[5].split()[-1]))
    ids = [change.split("\n")[1] for change in args[8 + gifts:8 + 2 * gifts]][-stay:]
    args[1] = "999999999999 " + args[1].split(" ", 1)[1]
    # Of what stands behind the limit only the times that are not the default policy's are kept: nobody reads, and the
    # store's clock is not asked.
    lasting = args[2].split(" ")[4:]
    args[2] = " ".join(["999999999999", *(["0", "0", "-", *lasting] if lasting not in ([], USUAL) else [])])
    args[5], args[ends:] = args[0], ids[:len(args) - ends]
    cli("mset", words[3 + 4], args[0], words[3 + 6], args[1].split("\n")[0])
    words[3 + keys:] = args
    assert cli(*words).strip() == "1", "the call is refused when it is made again"
    return words
