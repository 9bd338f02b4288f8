/* pretokenize.c - splits a text into words, before the model splits words into tokens. */
#include "prepost/text/tokenizer_parts.h"
#include "inlay/check.h"

/* Bytes of a text: a delimiter, or the text between two of them. */
struct piece {
    size_t begin, end;
};

/* Finds the next delimiter in text[at, end). */
static inlay_status find_delimiter(const struct pretokenizer *pretokenizer, void **scratch, const char *text,
                                   const struct piece *whole, size_t at, struct piece *out, bool *out_found,
                                   inlay_diag *diag)
{
    const size_t bytes = pretokenizer->kind == SPLIT_TEXT ? strlen(pretokenizer->text) : 0;
    size_t size = 1;

    if (pretokenizer->kind == SPLIT_PATTERN) {
        const inlay_status status =
            pattern_find(pretokenizer->pattern, scratch, text + whole->begin, whole->end - whole->begin,
                         at - whole->begin, out_found, &out->begin, &out->end, diag);

        out->begin += whole->begin;
        out->end += whole->begin;
        return status;
    }
    for (*out_found = false; at < whole->end && !*out_found; at += size) {
        if (pretokenizer->kind == SPLIT_CHARACTERS)
            *out_found = pretokenizer->is_delimiter(char_at(text + at, &size));
        else
            *out_found = bytes > 0 && bytes <= whole->end - at && memcmp(text + at, pretokenizer->text, bytes) == 0;
        *out = (struct piece){ at, at + (pretokenizer->kind == SPLIT_TEXT ? bytes : size) };
    }
    return INLAY_OK;
}

/* The words so far: the last one may still grow. */
struct splitter {
    int behaviour;
    bool after_delimiter, has_last;
    struct piece last;
    text_spans *out;
};

static void add_piece(struct splitter *splitter, struct piece piece, bool is_delimiter)
{
    bool joins = false;

    if (splitter->behaviour == DELIMITER_CONTIGUOUS)
        joins = is_delimiter == splitter->after_delimiter;
    else if (splitter->behaviour == DELIMITER_PREVIOUS)
        joins = is_delimiter && !splitter->after_delimiter;
    else if (splitter->behaviour == DELIMITER_NEXT)
        joins = !is_delimiter && splitter->after_delimiter;
    splitter->after_delimiter = is_delimiter;
    if (splitter->behaviour == DELIMITER_REMOVED && is_delimiter)
        return;
    if (splitter->has_last && !joins)
        spans_add(splitter->out, splitter->last.begin, splitter->last.end - splitter->last.begin);
    splitter->last = (struct piece){ splitter->has_last && joins ? splitter->last.begin : piece.begin, piece.end };
    splitter->has_last = true;
}

/* Splits a part of the text of `out` at the delimiters. An empty delimiter directly after another one does not count.
 * */
static inlay_status split(const struct pretokenizer *pretokenizer, const struct piece *whole, void **scratch,
                          text_spans *out, inlay_diag *diag)
{
    const char *text = out->text.data;
    struct splitter splitter = { .behaviour = pretokenizer->behaviour, .out = out };
    size_t at = whole->begin, done = whole->begin, after = SIZE_MAX, size;
    struct piece next = { 0, 0 };
    bool found = true;

    INLAY_CHECK(pretokenizer->behaviour >= DELIMITER_REMOVED && pretokenizer->behaviour <= DELIMITER_CONTIGUOUS);
    while (at <= whole->end && !out->text.failed) {
        const inlay_status status = find_delimiter(pretokenizer, scratch, text, whole, at, &next, &found, diag);

        if (status != INLAY_OK)
            return status;
        if (!found)
            break;
        at = next.end;
        if (next.begin == next.end && next.end == after) {
            (void)char_at(text + at, &size);
            at += at < whole->end ? size : 1;
            continue;
        }
        if (next.begin > done)
            add_piece(&splitter, (struct piece){ done, next.begin }, pretokenizer->invert);
        add_piece(&splitter, next, !pretokenizer->invert);
        done = after = next.end;
    }
    if (done < whole->end)
        add_piece(&splitter, (struct piece){ done, whole->end }, pretokenizer->invert);
    if (splitter.has_last)
        spans_add(out, splitter.last.begin, splitter.last.end - splitter.last.begin);
    return INLAY_OK;
}

/* Replaces each byte by the character that stands for it in byte-level BPE. */
static void spell_bytes(const text_spans *in, text_spans *out)
{
    for (size_t i = 0; i < in->count; i++) {
        const char *text = in->text.data + in->list[i].at;
        const size_t start = out->text.count;

        INLAY_CHECK(in->list[i].count > 0);
        for (size_t k = 0; k < in->list[i].count; k++)
            buf_append_char(&out->text, char_of_byte((unsigned char)text[k]));
        spans_add(out, start, out->text.count - start);
    }
}

/* Replaces each space by the mark (U+2581). `prepend` determines whether a mark is put before the text. */
static void mark_spaces(const struct pretokenizer *pretokenizer, const text_spans *in, text_spans *out, bool first)
{
    const struct pretokenizer by_mark = { .kind = SPLIT_TEXT, .behaviour = DELIMITER_NEXT, .text = pretokenizer->text };
    const size_t n = strlen(pretokenizer->text);

    for (size_t i = 0; i < in->count; i++) {
        const char *text = in->text.data + in->list[i].at;
        const size_t start = out->text.count, bytes = in->list[i].count;
        const bool marked = text[0] == ' ' || (bytes >= n && memcmp(text, pretokenizer->text, n) == 0);

        INLAY_CHECK(bytes > 0);
        if (!marked &&
            (pretokenizer->prepend == PREPEND_ALWAYS || (pretokenizer->prepend == PREPEND_FIRST && first && i == 0)))
            buf_append(&out->text, pretokenizer->text, n);
        for (size_t k = 0; k < bytes; k++)
            buf_append(&out->text, text[k] == ' ' ? pretokenizer->text : text + k, text[k] == ' ' ? n : 1);
        if (out->text.failed)
            return;
        if (pretokenizer->split_at_mark)
            (void)split(&by_mark, &(struct piece){ start, out->text.count }, NULL, out, NULL);
        else
            spans_add(out, start, out->text.count - start);
    }
}

/* Puts a space before each text. */
static void add_prefix_space(const text_spans *in, text_spans *out)
{
    for (size_t i = 0; i < in->count; i++) {
        const char *text = in->text.data + in->list[i].at;
        const size_t start = out->text.count;

        if (text[0] != ' ')
            buf_append(&out->text, " ", 1);
        buf_append(&out->text, text, in->list[i].count);
        spans_add(out, start, out->text.count - start);
    }
}

/* Words of a fixed number of characters. */
static void split_by_length(size_t length, const text_span *in, text_spans *out)
{
    size_t start = in->at, characters = 0, size;

    for (size_t at = in->at; at < in->at + in->count; at += size) {
        if (characters == length) {
            spans_add(out, start, at - start);
            start = at;
            characters = 0;
        }
        (void)char_at(out->text.data + at, &size);
        characters++;
    }
    spans_add(out, start, in->at + in->count - start);
}

inlay_status pretokenize(const struct pretokenizer *pretokenizer, const text_spans *in, text_spans *out, bool first,
                         inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    void *scratch = NULL;

    INLAY_CHECK(in != out && out->count == 0 && out->text.count == 0);
    if (pretokenizer->kind == SPLIT_BYTES)
        spell_bytes(in, out);
    else if (pretokenizer->kind == SPLIT_METASPACE)
        mark_spaces(pretokenizer, in, out, first);
    else if (pretokenizer->kind == SPLIT_PREFIX)
        add_prefix_space(in, out);
    else
        buf_append(&out->text, in->text.data, in->text.count);
    if (pretokenizer->kind > SPLIT_PREFIX) {
        for (size_t i = 0; i < in->count && !out->text.failed && status == INLAY_OK; i++) {
            const struct piece whole = { in->list[i].at, in->list[i].at + in->list[i].count };

            if (pretokenizer->kind == SPLIT_LENGTH)
                split_by_length(pretokenizer->length, &in->list[i], out);
            else
                status = split(pretokenizer, &whole, &scratch, out, diag);
        }
    }
    if (scratch != NULL)
        pattern_free_scratch(pretokenizer->pattern, scratch);
    if (status == INLAY_OK && out->text.failed)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the words");
    return status;
}

void pretokenizer_free(struct pretokenizer *pretokenizer)
{
    pattern_close(pretokenizer->pattern);
    free(pretokenizer->text);
}
