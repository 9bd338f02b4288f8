/* tokenizer_parts.h - the parts of a tokenizer: normalizers, pre-tokenizers, model, vocabulary. Shared by the files
 * that implement text.h, and private to them. */
#ifndef TOKENIZER_PARTS_H
#define TOKENIZER_PARTS_H
#include "prepost/text/pattern.h"
#include "prepost/text/text.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A text that grows as it is appended to. `failed` is set when an allocation fails, and stays set. */
typedef struct text_buf {
    char *data;
    size_t count, room;
    bool failed;
} text_buf;
void buf_append(text_buf *buffer, const char *data, size_t count);
void buf_append_char(text_buf *buffer, uint32_t c); /* as UTF-8 */
/* Appends a text as valid UTF-8: each invalid byte becomes U+FFFD. */
void buf_append_valid(text_buf *buffer, const char *text, size_t bytes);
/* As buf_append_valid(), but one U+FFFD for the bytes that begin a character and lack its end. */
void buf_append_lossy(text_buf *buffer, const char *text, size_t bytes);
bool is_valid_utf8(const char *text, size_t bytes);

/* Parts of a text, none of them empty. */
typedef struct text_span {
    size_t at, count;
} text_span;
typedef struct text_spans {
    text_buf text;
    text_span *list;
    size_t count, room;
} text_spans;
void spans_add(text_spans *spans, size_t at, size_t count); /* ignores empty spans */
void spans_free(text_spans *spans);

/* The character at s, which must be valid UTF-8, and its size in bytes. */
uint32_t char_at(const char *s, size_t *size);

bool is_space(uint32_t c);  /* \s */
bool is_letter(uint32_t c); /* \p{L} */
bool is_number(uint32_t c); /* \p{N} */
bool is_word(uint32_t c);   /* \w */
/* By the tables of categories.c, not by the version of Unicode that a library has. */
bool is_punctuation(uint32_t c); /* ASCII's, and \p{P} */
bool is_mark(uint32_t c, bool nonspacing_only);
bool is_unnormalized(uint32_t c); /* unchanged by NFC, NFD, NFKC and NFKD: no characters are composed across it */
bool is_other(uint32_t c);        /* \p{C} without unassigned characters */

struct token {
    const char *text; /* owned by the vocabulary */
    uint32_t bytes;
    double score;
    uint8_t special, present;
};
struct vocabulary {
    struct token *tokens; /* [count] by id; a token that is not `present` is a gap */
    size_t count, room;
    uint32_t *table; /* [mask + 1] id + 1, hashed by text; 0: a free entry */
    size_t mask, used;
    size_t longest; /* bytes of the longest token */
};
/* Adds a token, unless the id has one already. False if there is no memory, or if the id is negative or not below 2^24.
 * If several ids have the same text, vocabulary_find() returns the one that was added first. */
bool vocabulary_set(struct vocabulary *vocabulary, int64_t id, const char *text, size_t bytes, double score);
int64_t vocabulary_find(const struct vocabulary *vocabulary, const char *text, size_t bytes); /* -1: none */
/* FNV-1a over the bytes of a text: the caller of vocabulary_find_hashed() starts with HASH_START and adds each byte. */
#define HASH_START UINT32_C(2166136261)
static inline uint32_t hash_more(uint32_t hash, unsigned char byte)
{
    return (hash ^ byte) * UINT32_C(16777619);
}
int64_t vocabulary_find_hashed(const struct vocabulary *vocabulary, uint32_t hash, const char *text, size_t bytes);
void vocabulary_free(struct vocabulary *vocabulary);

enum {
    NORMALIZE_FORM,
    NORMALIZE_LOWER,
    NORMALIZE_STRIP_ACCENTS,
    NORMALIZE_BERT,
    NORMALIZE_REPLACE, /* each `text` becomes `replacement` */
    NORMALIZE_PATTERN, /* each match of `pattern` becomes `replacement` */
    NORMALIZE_PREPEND, /* puts `replacement` before the text */
    NORMALIZE_STRIP,
    NORMALIZE_CHARSMAP,
    NORMALIZE_SQUEEZE,
    NORMALIZE_NMT,
    NORMALIZE_BYTES /* each byte becomes the character that stands for it in byte-level BPE */
};
enum { FORM_NFC, FORM_NFD, FORM_NFKC, FORM_NFKD };
struct normalizer {
    int kind, form;
    bool lower, strip_accents, split_chinese, clean; /* NORMALIZE_BERT */
    bool strip_left, strip_right;                    /* NORMALIZE_STRIP */
    char *text, *replacement;                        /* owned */
    text_pattern *pattern;                           /* owned */
    /* NORMALIZE_CHARSMAP: trie_units units of 4 bytes, then the replacement texts; owned. by_grapheme: as the library
     * `tokenizers` uses the map, which looks up grapheme clusters; otherwise as SentencePiece does, which takes the
     * longest match at each place. */
    uint8_t *charsmap;
    size_t charsmap_bytes, trie_units;
    bool by_grapheme;
};
/* Sets SentencePiece's precompiled map of characters; an empty map changes nothing. False if the map is damaged, or if
 * there is no memory. */
bool normalizer_set_charsmap(struct normalizer *normalizer, const uint8_t *bytes, size_t count);
/* Appends the normalized text. */
inlay_status normalizer_apply(const struct normalizer *normalizer, const char *text, size_t bytes, text_buf *out,
                              inlay_diag *diag);
void normalizer_free(struct normalizer *normalizer);

enum {
    SPLIT_BYTES,     /* replaces each byte by the character that stands for it in byte-level BPE */
    SPLIT_METASPACE, /* replaces each space by `text` */
    SPLIT_PREFIX,    /* puts a space before the text */
    SPLIT_LENGTH,    /* splits after `length` characters; this and all below change no text */
    SPLIT_CHARACTERS,
    SPLIT_TEXT,
    SPLIT_PATTERN
};
/* Where a delimiter goes: the `behavior` of a pre-tokenizer in tokenizer.json. */
enum {
    DELIMITER_NONE,
    DELIMITER_REMOVED,
    DELIMITER_ISOLATED,
    DELIMITER_PREVIOUS,
    DELIMITER_NEXT,
    DELIMITER_CONTIGUOUS
};
enum { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS };
struct pretokenizer {
    int kind, behaviour;
    bool invert;                      /* the delimiters are what does not match */
    bool split_at_mark;               /* SPLIT_METASPACE: split before each mark */
    int prepend;                      /* SPLIT_METASPACE: put a mark before the text */
    size_t length;                    /* SPLIT_LENGTH */
    bool (*is_delimiter)(uint32_t c); /* SPLIT_CHARACTERS */
    char *text;                       /* SPLIT_TEXT: the delimiter; SPLIT_METASPACE: the mark; owned */
    text_pattern *pattern;            /* SPLIT_PATTERN; owned */
};
/* Splits the spans of `in` into those of `out`, which must be empty. `first`: the spans begin at the start of the
 * text. */
inlay_status pretokenize(const struct pretokenizer *pretokenizer, const text_spans *in, text_spans *out, bool first,
                         inlay_diag *diag);
void pretokenizer_free(struct pretokenizer *pretokenizer);

struct merge {
    uint32_t left, right, merged, rank; /* ids; rank UINT32_MAX: a free entry */
};

enum { MODEL_BPE, MODEL_WORDPIECE, MODEL_UNIGRAM, MODEL_WORDLEVEL };
struct model {
    int kind;
    struct vocabulary vocabulary;
    int64_t unknown_id;                              /* -1: none */
    bool byte_fallback, fuse_unknown, ignore_merges; /* ignore_merges: a word that is a token is not split */
    bool single_precision;                           /* UNIGRAM: adds scores in single precision */
    bool merge_by_score;   /* BPE of SentencePiece: the pair whose merged token has the best score is merged first */
    char *prefix, *suffix; /* prefix: of tokens that continue a word; suffix: of tokens that end a word; "": none */
    uint32_t max_chars;    /* WORDPIECE: a word with more characters is unknown */
    struct merge *merges;  /* [merge_mask + 1], hashed by left and right */
    size_t merge_mask;
    double unknown_score;  /* UNIGRAM: the score of an unknown character */
    int64_t byte_ids[256]; /* ids of the tokens "<0x00>" ...; -1: none */
};
/* Sets byte_ids from the vocabulary. */
void model_find_byte_tokens(struct model *model);
bool ids_push(text_ids *ids, int64_t id);
/* Adds a merge of two tokens; *out_known is false if the vocabulary lacks one of them or the merged token. False if
 * there is no memory. model_reserve_merges() must have been called with at least the number of merges. */
bool model_add_merge(struct model *model, const char *left, size_t left_bytes, const char *right, size_t right_bytes,
                     uint32_t rank, bool *out_known);
bool model_reserve_merges(struct model *model, size_t merges);
/* Append the tokens of a word; false if there is no memory. */
bool bpe_encode(const struct model *model, const char *text, size_t bytes, text_ids *out);
bool wordlevel_encode(const struct model *model, const char *text, size_t bytes, text_ids *out);
bool wordpiece_encode(const struct model *model, const char *text, size_t bytes, text_ids *out);
bool unigram_encode(const struct model *model, const char *text, size_t bytes, text_ids *out);
/* Appends the tokens of characters without a token: byte tokens with byte_fallback, otherwise the unknown token.
 * *after_unknown: the previous token was the unknown one; the function updates it. */
bool append_unknown(const struct model *model, const char *text, size_t bytes, text_ids *out, bool *after_unknown);
void model_free(struct model *model);

enum { MAX_STEPS = 16, MAX_AFFIX = 8 };
/* Steps from tokens to text: those of the library `tokenizers`. A step changes each token of a list, or joins some. */
enum {
    DECODE_BYTE_LEVEL,    /* the bytes that the characters stand for; joins all */
    DECODE_WORDPIECE,     /* a space before a token without the prefix `text` */
    DECODE_METASPACE,     /* `text` becomes a space, none at the start */
    DECODE_REPLACE,       /* as the normalizer */
    DECODE_BYTE_FALLBACK, /* <0x0A> becomes the byte */
    DECODE_FUSE,          /* joins all */
    DECODE_STRIP,         /* up to `start` and `stop` times the character `text` */
    DECODE_BPE,           /* the suffix `text` becomes a space, none at the end */
    DECODE_CTC            /* drops repeated tokens and `text`; `replacement` becomes a space */
};
struct decode_step {
    int kind;
    char *text, *replacement;     /* owned; NULL: none */
    struct normalizer normalizer; /* DECODE_REPLACE; owned */
    bool clean;                   /* WORDPIECE, CTC: no space before punctuation */
    bool drop_first;              /* METASPACE */
    size_t start, stop;           /* STRIP */
};
void decode_step_free(struct decode_step *step);
/* The byte of a token such as "<0x0A>"; -1: it is none. */
int byte_of_token(const char *text, size_t bytes);
/* A list of texts: the text of each ends where the next one begins. */
typedef struct text_list {
    text_buf text;
    size_t *ends; /* [count] */
    size_t count, room;
} text_list;
void text_list_add(text_list *list, const char *text, size_t bytes); /* text.failed: no memory */
void text_list_free(text_list *list);
/* Appends the texts of `in` to the empty list `out`. inner: the texts are from the middle of a longer list, without its
 * first and last text, and bytes that are not UTF-8 stay as they are. */
inlay_status decode_step_apply(const struct decode_step *step, bool inner, const text_list *in, text_list *out,
                               inlay_diag *diag);

/* A token that is found in the text before the model runs. lstrip, rstrip: the match includes the white space before or
 * after the token. single_word: the token does not match inside a word. normalized: the token is searched in the
 * normalized text, where `text` is normalized, too. */
typedef struct added_token {
    char *text; /* owned by the tokenizer */
    size_t bytes;
    int64_t id;
    bool special, lstrip, rstrip, single_word, normalized;
} added_token;
struct text_tokenizer {
    struct model model;
    struct normalizer normalizers[MAX_STEPS];
    struct pretokenizer pretokenizers[MAX_STEPS];
    struct decode_step decoders[MAX_STEPS];
    size_t normalizer_count, pretokenizer_count, decoder_count;
    bool spaced;        /* without decoders: a space between two tokens */
    added_token *added; /* [added_count], the longest first */
    size_t added_count;
    bool begins_added[2][256];                            /* [normalized][byte]: a token begins with that byte */
    int64_t prefix_ids[MAX_AFFIX], suffix_ids[MAX_AFFIX]; /* special tokens before and after a text */
    int64_t between_ids[MAX_AFFIX];                       /* and between two texts, if takes_pairs */
    size_t prefix_count, suffix_count, between_count;
    bool takes_pairs; /* the file says how two texts are encoded together */
    int64_t pad_id;
};
/* Read the files into a tokenizer that has only defaults. */
inlay_status read_json(text_tokenizer *tokenizer, const char *file, size_t bytes, inlay_diag *diag);
inlay_status read_bpe(text_tokenizer *tokenizer, const char *vocab, size_t vocab_bytes, const char *merges,
                      size_t merges_bytes, inlay_diag *diag);
inlay_status read_spm(text_tokenizer *tokenizer, const char *file, size_t bytes, inlay_diag *diag);
/* Adds a copy of the token and of its text. */
bool add_token(text_tokenizer *tokenizer, const added_token *added);
/* Applies all normalizers to the text. */
inlay_status normalize_text(const text_tokenizer *tokenizer, text_buf *text, inlay_diag *diag);
/* Adds the splitter of GPT-2's words; that of BERT: at white space and punctuation. */
inlay_status add_word_splitter(text_tokenizer *tokenizer, inlay_diag *diag);
inlay_status add_bert_splitter(text_tokenizer *tokenizer, inlay_diag *diag);
char *copy_text(const char *text, size_t bytes); /* with a NUL; the caller frees it; NULL: no memory */

/* The printable character that stands for a byte in GPT-2's byte-level BPE, and the reverse. */
uint32_t char_of_byte(unsigned char byte);
int byte_of_char(uint32_t c); /* -1: the character stands for no byte */
#endif
