#include "texts/grammar/token_cover.h"
#include "base/utf8.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_COVERS = 16,      /* masks that are kept; the least recently used is replaced */
    MOST_CHARACTERS = 16,  /* of a token in a mask; longer ones are followed */
    FEW_CHARACTERS = 4,    /* a mask for texts that may have fewer is not worth its memory */
    LEAST_CHARACTERS = 64, /* ASCII characters of a set: with fewer, most tokens are passed over anyway */
    ASCII_CHARACTERS = 128
};

typedef struct character_set {
    uint64_t ascii[2];
    bool others;         /* all characters beyond ASCII */
    uint32_t characters; /* of a token at most */
} character_set;

typedef struct token_cover {
    character_set set;
    uint64_t used;    /* number of the last use; 0: there is no cover here */
    uint64_t *bits;   /* the tokens of characters of the set, owned */
    bool any;         /* there is one */
    token_order rest; /* the others */
} token_cover;

struct token_covers {
    const token_order *order;
    size_t words;         /* of `bits` */
    pthread_mutex_t lock; /* guards the fields below */
    token_cover covers[MOST_COVERS];
    uint64_t uses;
};

struct token_covers *token_covers_create(const token_order *order, size_t vocabulary)
{
    struct token_covers *covers = calloc(1, sizeof *covers);

    if (covers == NULL)
        return NULL;
    covers->order = order;
    covers->words = vocabulary / 64 + 1;
    (void)pthread_mutex_init(&covers->lock, NULL);
    return covers;
}

static void cover_deinit(token_cover *cover)
{
    free(cover->bits);
    free(cover->rest.tokens);
    *cover = (token_cover){ .used = 0 };
}

void token_covers_destroy(struct token_covers *covers)
{
    if (covers == NULL)
        return;
    for (int i = 0; i < MOST_COVERS; i++)
        cover_deinit(&covers->covers[i]);
    (void)pthread_mutex_destroy(&covers->lock);
    free(covers);
}

static bool is_equal(const character_set *a, const character_set *b)
{
    return a->ascii[0] == b->ascii[0] && a->ascii[1] == b->ascii[1] && a->others == b->others &&
           a->characters == b->characters;
}

static bool has_ascii(const character_set *set, uint32_t character)
{
    return (set->ascii[character / 64] >> character % 64 & 1) != 0;
}

/* Whether all continuations of `count` bytes, the first from low to high, lead from one state to another. */
static bool all_continue(struct grammar *grammar, uint32_t from, uint32_t low, uint32_t high, uint32_t count,
                         uint32_t to)
{
    uint32_t last = GRAMMAR_DEAD; /* a state that was checked */

    for (uint32_t byte = low; byte <= high; byte++) {
        uint32_t next = grammar_next(grammar, from, (uint8_t)byte);

        if (next == GRAMMAR_DEAD || (count == 1 && next != to))
            return false;
        if (count > 1 && next != last && !all_continue(grammar, next, 0x80, 0xbf, count - 1, to))
            return false;
        last = next;
    }
    return true;
}

/* Whether all characters beyond ASCII lead from one state to another. */
static bool takes_others(struct grammar *grammar, uint32_t from, uint32_t to)
{
    static const struct {
        uint8_t first, last; /* bytes that begin a character */
        uint8_t low, high;   /* the byte after them */
        uint8_t count;       /* bytes after them */
    } rows[] = { { 0xc2, 0xdf, 0x80, 0xbf, 1 }, { 0xe0, 0xe0, 0xa0, 0xbf, 2 }, { 0xe1, 0xec, 0x80, 0xbf, 2 },
                 { 0xed, 0xed, 0x80, 0x9f, 2 }, { 0xee, 0xef, 0x80, 0xbf, 2 }, { 0xf0, 0xf0, 0x90, 0xbf, 3 },
                 { 0xf1, 0xf3, 0x80, 0xbf, 3 }, { 0xf4, 0xf4, 0x80, 0x8f, 3 } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t last = GRAMMAR_DEAD;

        for (uint32_t byte = rows[i].first; byte <= rows[i].last; byte++) {
            uint32_t next = grammar_next(grammar, from, (uint8_t)byte);

            if (next == GRAMMAR_DEAD ||
                (next != last && !all_continue(grammar, next, rows[i].low, rows[i].high, rows[i].count, to)))
                return false;
            last = next;
        }
    }
    return true;
}

/* The state that most ASCII characters lead to, by a vote in which each cancels one of another state. */
static uint32_t usual_next(struct grammar *grammar, uint32_t from)
{
    uint32_t usual = GRAMMAR_DEAD, votes = 0;

    for (uint32_t character = 0; character < ASCII_CHARACTERS; character++) {
        uint32_t next = grammar_next(grammar, from, (uint8_t)character);

        if (votes == 0)
            usual = next;
        if (next == usual)
            votes++;
        else
            votes--;
    }
    return usual;
}

/* The characters that lead from a state to one other, or to itself, and that state; GRAMMAR_DEAD: there are too few. */
static uint32_t step_of(struct grammar *grammar, uint32_t from, character_set *out)
{
    const uint32_t to = usual_next(grammar, from);
    uint32_t count = 0;

    *out = (character_set){ .others = false };
    for (uint32_t character = 0; character < ASCII_CHARACTERS && to != GRAMMAR_DEAD; character++)
        if (grammar_next(grammar, from, (uint8_t)character) == to) {
            out->ascii[character / 64] |= UINT64_C(1) << character % 64;
            count++;
        }
    if (count < LEAST_CHARACTERS)
        return GRAMMAR_DEAD;
    out->others = takes_others(grammar, from, to);
    return to;
}

/* Finds the set of characters with which a text of the state may continue for 16, 8 or 4 characters; there is a mask
 * for each of these three numbers. false: there is no such set. */
static bool find_set(struct grammar *grammar, uint32_t state, character_set *out)
{
    character_set set;
    uint32_t next = step_of(grammar, state, out), count = 1;

    if (next == GRAMMAR_DEAD)
        return false;
    while (next != state && count < MOST_CHARACTERS) {
        state = next;
        next = step_of(grammar, state, &set);
        if (next == GRAMMAR_DEAD || !is_equal(&set, out))
            break;
        count++;
    }
    out->characters = MOST_CHARACTERS;
    while (next != state && out->characters > count)
        out->characters /= 2;
    return out->characters >= FEW_CHARACTERS;
}

/* Whether the token has only characters of the set. */
static bool is_covered(const character_set *set, const ordered_token *one)
{
    uint32_t characters = 0, point;
    size_t length;

    for (size_t at = 0; at < one->bytes; at += length) {
        length = utf8_get(one->text + at, one->bytes - at, &point);
        if (length == 0 || ++characters > set->characters ||
            (point < ASCII_CHARACTERS ? !has_ascii(set, point) : !set->others))
            return false;
    }
    return true;
}

/* Makes the mask of a set. false: out of memory. */
static bool cover_init(token_cover *cover, const struct token_covers *covers, const character_set *set)
{
    const token_order *order = covers->order;

    *cover = (token_cover){ .set = *set };
    cover->bits = calloc(covers->words, sizeof *cover->bits);
    cover->rest.tokens = malloc((order->count + 1u) * sizeof *cover->rest.tokens);
    if (cover->bits == NULL || cover->rest.tokens == NULL) {
        cover_deinit(cover);
        return false;
    }
    for (uint32_t i = 0; i < order->count; i++) {
        const ordered_token *one = &order->tokens[i];

        if (is_covered(set, one)) {
            cover->bits[one->token / 64] |= UINT64_C(1) << one->token % 64;
            cover->any = true;
        } else {
            cover->rest.tokens[cover->rest.count++] = *one;
        }
    }
    token_order_link(&cover->rest);
    return true;
}

/* The cover of the set; NULL: out of memory. */
static const token_cover *cover_of(struct token_covers *covers, const character_set *set)
{
    token_cover *oldest = &covers->covers[0];

    covers->uses++;
    for (int i = 0; i < MOST_COVERS; i++) {
        token_cover *one = &covers->covers[i];

        if (one->used > 0 && is_equal(&one->set, set)) {
            one->used = covers->uses;
            return one;
        }
        if (one->used < oldest->used)
            oldest = one;
    }
    cover_deinit(oldest);
    if (!cover_init(oldest, covers, set))
        return NULL;
    oldest->used = covers->uses;
    return oldest;
}

bool token_covers_walk(struct token_covers *covers, struct grammar *grammar, uint32_t *path, token_mask *mask)
{
    const token_cover *cover;
    character_set set;

    if (!find_set(grammar, path[0], &set))
        return false;
    (void)pthread_mutex_lock(&covers->lock);
    cover = cover_of(covers, &set);
    if (cover != NULL) {
        memcpy(mask->bits, cover->bits, covers->words * sizeof *mask->bits);
        mask->any = cover->any;
        token_order_walk(&cover->rest, grammar, path, mask);
    }
    (void)pthread_mutex_unlock(&covers->lock);
    return cover != NULL;
}
