/* text.h - tokenizers: convert text to tokens and back, with the files that models are published with: tokenizer.json
 * of Hugging Face's tokenizers (byte-level BPE, BPE, WordPiece, Unigram), vocab.txt of BERT, vocab.json with merges.txt
 * of GPT-2, and SentencePiece's .model (Unigram and BPE).
 *
 * A tokenizer is immutable: any number of threads may use it concurrently. */
#ifndef TEXT_H
#define TEXT_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct text_tokenizer text_tokenizer;

/* Opens a tokenizer.json, a SentencePiece model or a vocab.txt of BERT; the first bytes of the file decide which. A
 * file that uses an unsupported feature is refused, and `diag` names the feature. */
inlay_status text_open(const char *file, size_t bytes, text_tokenizer **out, inlay_diag *diag);
/* Opens GPT-2's vocab.json and merges.txt. */
inlay_status text_open_bpe(const char *vocab, size_t vocab_bytes, const char *merges, size_t merges_bytes,
                           text_tokenizer **out, inlay_diag *diag);
/* Opens BERT's vocab.txt, which has one token a line. */
typedef struct text_bert_options {
    bool lower, chinese, clean;              /* lower-case; spaces around Chinese characters; drop control characters */
    int strip_accents;                       /* -1: as `lower` */
    const char *unknown, *begin, *end, *pad; /* "[UNK]", "[CLS]", "[SEP]", "[PAD]" */
} text_bert_options;
inlay_status text_open_bert(const char *vocab, size_t bytes, const text_bert_options *options, text_tokenizer **out,
                            inlay_diag *diag);
void text_close(text_tokenizer *tokenizer); /* NULL is a no-op */

/* Ids of tokens; functions append to the list, and the caller frees it. */
typedef struct text_ids {
    int64_t *list;
    size_t count, room;
} text_ids;
/* Encodes a text. `special` adds the tokens that the file puts before and after a text ([CLS] ... [SEP]). Bytes that
 * are not valid UTF-8 are encoded as U+FFFD. */
inlay_status text_encode(const text_tokenizer *tokenizer, const char *text, size_t bytes, bool special, text_ids *out,
                         inlay_diag *diag);
/* Encodes two texts together, such as a question and an answer, with the tokens that the file puts around and between
 * them. *begin: where the tokens of the second text begin. INLAY_UNSUPPORTED: the file does not say how. */
inlay_status text_encode_pair(const text_tokenizer *tokenizer, const char *first, const char *second, text_ids *out,
                              size_t *begin, inlay_diag *diag);
/* Decodes ids to text; the caller frees *out. `skip` skips special tokens. Ids without a token are skipped, too. */
inlay_status text_decode(const text_tokenizer *tokenizer, const int64_t *ids, size_t count, bool skip, char **out,
                         size_t *out_bytes, inlay_diag *diag);
/* The text that a token appends to the text of earlier tokens; it may be a part of a character. The caller frees *out.
 * If no token has the id, *out_bytes is 0 and *out is NULL. *special: the token is a special one, such as [SEP]. */
inlay_status text_token_text(const text_tokenizer *tokenizer, int64_t id, char **out, size_t *out_bytes, bool *special,
                             inlay_diag *diag);
/* The size of the vocabulary: all ids are below it. */
size_t text_vocabulary_size(const text_tokenizer *tokenizer);
/* The id of the token with that text; -1 if there is none. */
int64_t text_find_token(const text_tokenizer *tokenizer, const char *token);
/* The id of the padding token; 0 if the file has none. */
int64_t text_pad_id(const text_tokenizer *tokenizer);
/* True for punctuation: that of ASCII, and Unicode's category P. */
bool text_is_punctuation(uint32_t c);
#endif
