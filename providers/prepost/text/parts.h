/* parts.h - what the files of text.h share: the parts of a tokenizer. */
#ifndef PARTS_H
#define PARTS_H
#include "text.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ text */

/* Grows as it is appended to; `failed` stays when memory ran out once. */
typedef struct text_buf {
    char *data;
    size_t count, room;
    bool failed;
} text_buf;
void buf_put(text_buf *buffer, const char *data, size_t count);
void buf_char(text_buf *buffer, uint32_t c); /* as UTF-8 */

/* Spans of a text. */
typedef struct text_span {
    size_t at, count;
} text_span;
typedef struct text_spans {
    text_buf text;
    text_span *list;
    size_t count, room;
} text_spans;
void spans_add(text_spans *spans, size_t at, size_t count); /* empty ones are not added */
void spans_free(text_spans *spans);

/* The character at s, of valid UTF-8; *size: its bytes. */
uint32_t char_at(const char *s, size_t *size);
/* Valid UTF-8: what is none becomes U+FFFD. */
void buf_clean(text_buf *buffer, const char *text, size_t bytes);

bool is_space(uint32_t c);       /* \s */
bool is_letter(uint32_t c);      /* \p{L} */
bool is_number(uint32_t c);      /* \p{N} */
bool is_word(uint32_t c);        /* \w */
bool is_punctuation(uint32_t c); /* ASCII's, and \p{P} */
bool is_mark(uint32_t c, bool nonspacing_only);
bool is_other(uint32_t c); /* \p{C}, but for what is not assigned */

/* ------------------------------------------------------------------ vocabulary */

struct word {
    const char *text; /* owned by the vocabulary */
    uint32_t bytes;
    float score;
    double exact; /* the score as the file has it */
    uint8_t special, present;
};
struct vocabulary {
    struct word *words; /* [count] by id; present 0: a gap */
    size_t count, room;
    uint32_t *table; /* [mask + 1] id + 1, hashed by text */
    size_t mask, used;
    size_t longest; /* bytes */
};
/* Sets a word; false: no memory, or id beyond 2^24. The first id of a text is found. */
bool vocabulary_set(struct vocabulary *vocabulary, int64_t id, const char *text, size_t bytes, double score);
int64_t vocabulary_find(const struct vocabulary *vocabulary, const char *text, size_t bytes); /* -1: none */
/* The same with the hash at hand: FNV-1a over the bytes, from HASH_START. */
#define HASH_START UINT32_C(2166136261)
static inline uint32_t hash_more(uint32_t h, unsigned char byte)
{
    return (h ^ byte) * UINT32_C(16777619);
}
int64_t vocabulary_find_hashed(const struct vocabulary *vocabulary, uint32_t hash, const char *text, size_t bytes);
void vocabulary_free(struct vocabulary *vocabulary);

/* ------------------------------------------------------------------ normalizers */

enum {
    NORM_FORM,
    NORM_LOWER,
    NORM_STRIP_ACCENTS,
    NORM_BERT,
    NORM_REPLACE,
    NORM_RUNS,
    NORM_PREPEND,
    NORM_STRIP,
    NORM_CHARSMAP,
    NORM_SQUEEZE,
    NORM_SPACES /* each run of \s becomes `to` */
};
enum { FORM_NFC, FORM_NFD, FORM_NFKC, FORM_NFKD };
struct norm {
    int kind, form;
    bool lower, accents, chinese, clean; /* of BERT; of STRIP: lower = left, clean = right */
    char *from, *to;                     /* REPLACE, PREPEND (to), RUNS: so many or more of `from` become `to` */
    uint32_t least;
    uint8_t *map; /* CHARSMAP: units of the trie, then texts */
    size_t map_bytes, units;
};
/* A map of characters as SentencePiece has it; an empty one changes nothing. False: damaged, or no memory. */
bool norm_set_map(struct norm *norm, const uint8_t *bytes, size_t count);
/* Applies one step; NULL: fine, otherwise what is wrong. */
const char *norm_apply(const struct norm *norm, const char *text, size_t bytes, text_buf *out);
void norm_free(struct norm *norm);

/* ------------------------------------------------------------------ cutting into words */

enum {
    CUT_GPT2,
    CUT_CL100K,
    CUT_CLIP,
    CUT_BYTES,
    CUT_WHITESPACE,
    CUT_WORDS,
    CUT_BERT,
    CUT_METASPACE,
    CUT_DIGITS,
    CUT_PUNCTUATION,
    CUT_TEXT
};
enum { WITH_NONE, WITH_REMOVED, WITH_ISOLATED, WITH_PREVIOUS, WITH_NEXT, WITH_CONTIGUOUS };
enum { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS };
struct cut {
    int kind, behaviour;
    uint32_t digits;   /* CL100K: in one word; DIGITS: 1 = each alone */
    bool prefix_space; /* BYTES */
    bool split;        /* METASPACE */
    int prepend;       /* METASPACE */
    char *text;        /* TEXT: the pattern; METASPACE: the replacement */
};
/* first: the spans begin where the whole text does. */
void cut_apply(const struct cut *cut, const text_spans *in, text_spans *out, bool first);

/* ------------------------------------------------------------------ models */

struct merge {
    uint32_t left, right, made, rank; /* rank UINT32_MAX: an empty place */
};

enum { MODEL_BPE, MODEL_WORDPIECE, MODEL_UNIGRAM };
struct model {
    int kind;
    struct vocabulary words;
    int64_t unknown; /* -1: there is none */
    bool byte_fallback, fuse_unknown, whole_words;
    bool single;           /* UNIGRAM: sums in single precision */
    bool by_score;         /* BPE of SentencePiece: neighbours whose whole has the best score are joined first */
    char *prefix, *suffix; /* of pieces that continue, of those that end a word; "" */
    uint32_t most_chars;   /* WORDPIECE */
    struct merge *merges;  /* [merge_mask + 1] */
    size_t merge_mask;
    double least_score; /* UNIGRAM: that of unknown characters */
    int64_t bytes[256]; /* the tokens "<0x00>" ..., -1 */
};
/* Finds the tokens of bytes among the words. */
void model_find_bytes(struct model *model);
bool ids_push(text_ids *ids, int64_t id);
bool model_add_merge(struct model *model, size_t room, const char *left, size_t left_bytes, const char *right,
                     size_t right_bytes, uint32_t rank, bool *out_known);
bool model_room(struct model *model, size_t merges);
/* Appends the tokens of a word; false: no memory. */
bool bpe_encode(const struct model *model, const char *text, size_t bytes, text_ids *out);
bool wordpiece_encode(const struct model *model, const char *text, size_t bytes, text_ids *out);
bool unigram_encode(const struct model *model, const char *text, size_t bytes, text_ids *out);
/* What byte fallback, or else the unknown token, makes of characters. after_unknown: the one before was unknown. */
bool put_unknown(const struct model *model, const char *text, size_t bytes, text_ids *out, bool *after_unknown);
void model_free(struct model *model);

/* ------------------------------------------------------------------ the whole */

enum { MOST_STEPS = 16, MOST_AROUND = 8 };
enum { DECODE_PLAIN, DECODE_BYTES, DECODE_WORDPIECE, DECODE_METASPACE };
struct added {
    const char *text; /* the vocabulary's */
    size_t bytes;
    int64_t id;
    bool special, left, right, single, normalized;
};
struct text_tokenizer {
    struct model model;
    struct norm norms[MOST_STEPS];
    struct cut cuts[MOST_STEPS];
    size_t norm_count, cut_count;
    struct added *added; /* [added_count], the longest first */
    size_t added_count;
    int64_t before[MOST_AROUND], after[MOST_AROUND]; /* put around a text */
    size_t before_count, after_count;
    int64_t pad;
    int decoder;
    bool strip_first; /* a decoder takes the first space off */
};
/* From the files. */
inlay_status read_json(text_tokenizer *tokenizer, const char *file, size_t bytes, inlay_diag *diag);
inlay_status read_bpe(text_tokenizer *tokenizer, const char *vocab, size_t vocab_bytes, const char *merges,
                      size_t merges_bytes, inlay_diag *diag);
inlay_status read_spm(text_tokenizer *tokenizer, const char *file, size_t bytes, inlay_diag *diag);
bool add_token(text_tokenizer *tokenizer, const struct added *added);
void sort_added(text_tokenizer *tokenizer);
char *copy_text(const char *text, size_t bytes);

/* GPT-2's spelling of bytes as characters. */
uint32_t char_of_byte(unsigned char byte);
int byte_of_char(uint32_t c); /* -1: it spells none */
#endif
