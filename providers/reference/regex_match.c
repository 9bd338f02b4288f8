/* regex_match.c - the matcher of regex.h: a set of threads walks the program, one character of the text at a time. */
#include "regex_parts.h"
#include <string.h>

static bool set_has(const regex *re, uint32_t which, uint32_t c)
{
    const set *s = &re->sets[which];

    for (uint32_t i = 0; i < s->count; i++)
        if (c >= re->ranges[s->first + i].low && c <= re->ranges[s->first + i].high)
            return !s->negated;
    return s->negated;
}

/* Two sets of threads (places in the program that read a character next), a stack, and when each place was last
 * seen. */
typedef struct threads {
    uint32_t *now, *next, *stack;
    uint64_t *seen;
    uint32_t now_count, next_count;
    bool matched; /* a thread reached the end of the program at this place of the text */
} threads;

size_t regex_scratch_bytes(const regex *re)
{
    return (size_t)re->program_count * (3 * sizeof(uint64_t) + 4 * sizeof(uint32_t)) + 4 * sizeof(uint64_t);
}

static bool holds(uint32_t which, bool at_begin, bool at_end, bool word_before, bool word_after)
{
    switch (which) {
    case ASSERT_BEGIN:
        return at_begin;
    case ASSERT_END:
        return at_end;
    case ASSERT_WORD:
        return word_before != word_after;
    default:
        return word_before == word_after;
    }
}

/* Follows splits, jumps and assertions from place `at`, adding what reads a character to t->next. */
static void follow(const regex *re, threads *t, uint32_t at, uint64_t stamp, const bool *where)
{
    uint32_t depth = 0;

    t->stack[depth++] = at;
    while (depth > 0) {
        const uint32_t pc = t->stack[--depth];
        const op *o = &re->program[pc];

        if (t->seen[pc] == stamp)
            continue;
        t->seen[pc] = stamp;
        switch (o->kind) {
        case OP_SPLIT:
            t->stack[depth++] = o->a;
            t->stack[depth++] = o->b;
            break;
        case OP_JUMP:
            t->stack[depth++] = o->a;
            break;
        case OP_ASSERT:
            if (holds(o->a, where[0], where[1], where[2], where[3]))
                t->stack[depth++] = pc + 1;
            break;
        case OP_MATCH:
            t->matched = true;
            break;
        default:
            t->next[t->next_count++] = pc;
        }
    }
}

bool regex_full_match(const regex *re, const char *text, size_t bytes, void *scratch)
{
    const uint32_t n = re->program_count;
    const char *at = text, *end = text + bytes;
    threads t = { .seen = scratch };
    uint64_t stamp = 1;
    uint32_t before = 0;

    memset(t.seen, 0, n * sizeof *t.seen);
    t.now = (uint32_t *)(void *)(t.seen + n);
    t.next = t.now + n;
    t.stack = t.next + n; /* each place is expanded once a step and pushes two: 2 n + 1 fit */
    for (;; stamp++) {
        uint32_t length = 0, c = 0, *swap;
        bool where[4];

        if (at < end)
            c = regex_decode(at, end, &length);
        where[0] = at == text;
        where[1] = at == end;
        where[2] = at > text && regex_is_word(before);
        where[3] = at < end && regex_is_word(c);
        t.matched = false;
        t.next_count = 0;
        if (stamp == 1) {
            follow(re, &t, 0, stamp, where);
        } else {
            /* now holds the places behind the characters that were read. */
            for (uint32_t i = 0; i < t.now_count; i++)
                follow(re, &t, t.now[i], stamp, where);
        }
        if (at == end)
            return t.matched;
        t.now_count = 0;
        for (uint32_t i = 0; i < t.next_count; i++)
            if (set_has(re, re->program[t.next[i]].a, c))
                t.next[t.now_count++] = t.next[i] + 1;
        if (t.now_count == 0)
            return false;
        swap = t.now;
        t.now = t.next;
        t.next = swap;
        before = c;
        at += length;
    }
}

/* Threads have the place where their match began, and stand in its order: what two of them reach is the first one's,
 * whose match begins before the other's. */
bool regex_search(const regex *re, const char *text, size_t bytes, size_t from, void *scratch, size_t *out_begin,
                  size_t *out_end)
{
    const uint32_t n = re->program_count;
    const char *at = text + from, *end = text + bytes;
    uint64_t *begins = (uint64_t *)scratch + n, *next_begins = begins + n, *swap_begins;
    threads t = { .seen = scratch };
    uint64_t stamp = 1;
    uint32_t before = 0;
    bool found = false;

    memset(t.seen, 0, n * sizeof *t.seen);
    t.now = (uint32_t *)(void *)(next_begins + n);
    t.next = t.now + n;
    t.stack = t.next + n;
    for (;; stamp++) {
        const uint64_t here = (uint64_t)(at - text);
        uint32_t length = 0, c = 0, *swap;
        bool where[4];

        if (at < end)
            c = regex_decode(at, end, &length);
        where[0] = at == text;
        where[1] = at == end;
        where[2] = at > text + from && regex_is_word(before);
        where[3] = at < end && regex_is_word(c);
        t.next_count = 0;
        for (uint32_t i = 0; i < t.now_count + (found ? 0 : 1); i++) { /* the last one begins here */
            const uint64_t begin = i < t.now_count ? begins[i] : here;
            const uint32_t first = t.next_count;

            if (found && begin > *out_begin)
                break;
            t.matched = false;
            follow(re, &t, i < t.now_count ? t.now[i] : 0, stamp, where);
            for (uint32_t k = first; k < t.next_count; k++)
                next_begins[k] = begin;
            if (t.matched) {
                found = true;
                *out_begin = (size_t)begin;
                *out_end = (size_t)here;
            }
        }
        if (at == end)
            return found;
        t.now_count = 0;
        for (uint32_t i = 0; i < t.next_count; i++) {
            if ((!found || next_begins[i] <= *out_begin) && set_has(re, re->program[t.next[i]].a, c)) {
                next_begins[t.now_count] = next_begins[i];
                t.next[t.now_count++] = t.next[i] + 1;
            }
        }
        if (found && t.now_count == 0)
            return true;
        swap = t.now;
        t.now = t.next;
        t.next = swap;
        swap_begins = begins;
        begins = next_begins;
        next_begins = swap_begins;
        before = c;
        at += length;
    }
}
