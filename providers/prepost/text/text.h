/* text.h - text to tokens and back, by the files that models are published with: tokenizer.json of Hugging Face's
 * tokenizers (byte-level BPE, BPE, WordPiece, Unigram), vocab.txt of BERT, vocab.json with merges.txt of GPT-2, and
 * SentencePiece's .model (Unigram and BPE).
 *
 * A tokenizer is immutable: any number of threads may use it. */
#ifndef TEXT_H
#define TEXT_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct text_tokenizer text_tokenizer;

/* What the bytes are is told by how they begin. What is understood only in part is refused, with what it is. */
inlay_status text_open(const char *file, size_t bytes, text_tokenizer **out, inlay_diag *diag);
/* GPT-2's two files. */
inlay_status text_open_bpe(const char *vocab, size_t vocab_bytes, const char *merges, size_t merges_bytes,
                           text_tokenizer **out, inlay_diag *diag);
/* BERT's vocab.txt: a token each line. */
typedef struct text_bert {
    bool lower, chinese, clean;
    int strip_accents;                       /* -1: as lower */
    const char *unknown, *begin, *end, *pad; /* "[UNK]", "[CLS]", "[SEP]", "[PAD]" */
} text_bert;
inlay_status text_open_bert(const char *vocab, size_t bytes, const text_bert *how, text_tokenizer **out,
                            inlay_diag *diag);
void text_close(text_tokenizer *tokenizer); /* NULL is a no-op */

/* Tokens, appended to; the caller frees list. */
typedef struct text_ids {
    int64_t *list;
    size_t count, room;
} text_ids;
/* special: with what the file puts around a text ([CLS] ... [SEP]). Bytes that are no UTF-8 count as U+FFFD. */
inlay_status text_encode(const text_tokenizer *tokenizer, const char *text, size_t bytes, bool special, text_ids *out,
                         inlay_diag *diag);
/* The text of tokens; *out is the caller's to free. skip: special ones are left out. */
inlay_status text_decode(const text_tokenizer *tokenizer, const int64_t *ids, size_t count, bool skip, char **out,
                         size_t *out_bytes, inlay_diag *diag);
/* What a token adds to a text that others began, perhaps a part of a character: *out is the caller's to free, and empty
 * where there is no such token. *special: it is none of the text. */
inlay_status text_piece(const text_tokenizer *tokenizer, int64_t id, char **out, size_t *out_bytes, bool *special,
                        inlay_diag *diag);
/* Tokens have numbers below this. */
size_t text_count(const text_tokenizer *tokenizer);
/* The token of that text, -1: there is none. */
int64_t text_id(const text_tokenizer *tokenizer, const char *token);
/* The token that fills up, 0 where the file has none. */
int64_t text_pad(const text_tokenizer *tokenizer);
/* Is the character punctuation: ASCII's, and Unicode's category P? */
bool text_is_punctuation(uint32_t c);
#endif
