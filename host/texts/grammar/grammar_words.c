/* One of many texts, as a tree: those with a common beginning share its bytes, so that a state has few positions. */
#include "texts/grammar/grammar.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 400 }; /* of the tree: below, each text has its own alternative */

static int by_bytes(const void *left, const void *right)
{
    const grammar_word *a = left, *b = right;
    const int order = memcmp(a->text, b->text, a->bytes < b->bytes ? a->bytes : b->bytes);

    return order != 0 ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static grammar_node either(struct grammar *grammar, grammar_node first, grammar_node second)
{
    return grammar_is_never(grammar, first) ? second : grammar_either(grammar, first, second);
}

/* The words, which are in order and have their first `from` bytes in common, without these bytes. */
static grammar_node branch(struct grammar *grammar, const grammar_word *words, size_t count, size_t from, int depth)
{
    const grammar_word *last = &words[count - 1];
    grammar_node all = grammar_never(grammar), head;
    size_t common = from, next = 0;

    while (common < words->bytes && common < last->bytes && words->text[common] == last->text[common])
        common++;
    head = grammar_text(grammar, words->text + from, common - from);
    while (next < count && words[next].bytes == common) /* equal ones */
        next++;
    if (next == count)
        return head;
    if (next > 0)
        all = grammar_empty(grammar);
    for (size_t end; next < count && !grammar_has_ended(grammar, NULL); next = end) {
        for (end = next + 1; end < count && words[end].text[common] == words[next].text[common];)
            end++;
        for (size_t i = next; depth == MAX_DEPTH && i < end; i++)
            all = either(grammar, all, grammar_text(grammar, words[i].text + common, words[i].bytes - common));
        if (depth < MAX_DEPTH)
            all = either(grammar, all, branch(grammar, words + next, end - next, common, depth + 1));
    }
    return common > from ? grammar_sequence(grammar, head, all) : all;
}

grammar_node grammar_words(struct grammar *grammar, grammar_word *words, size_t count)
{
    enum { STEPS = 16 }; /* to order a word */

    if (count == 0)
        return grammar_never(grammar);
    if (!grammar_spend(grammar, STEPS * (uint64_t)count))
        return 0;
    qsort(words, count, sizeof *words, by_bytes);
    return branch(grammar, words, count, 0, 0);
}
