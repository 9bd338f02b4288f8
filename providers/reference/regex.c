#include "reference/regex.h"
#include "inlay/check.h"
#include "common/pcre.h"
#include "reference/regex_re2.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Scratch memory: PCRE2's match object, then the states of the automaton, three integers each, for the current position
 * of the text and the next. */
enum { OBJECT_BYTES = 1024, STATE_INTS = 2 * 3 * REGEX_WAYS + 64 };
/* PCRE2 requires UTF-8. In its copies of texts and patterns, an invalid byte is replaced by a character for private
 * use: CODE_OF_BYTE plus the byte. */
enum { CODE_OF_BYTE = 0x10ff00 };

struct regex {
    const pcre_library *pcre;
    pcre2_code *code;
};

/* Decodes the code point at text. Returns CODE_OF_BYTE + byte if the byte there does not begin a valid code point. */
static uint32_t decode(const char *text, const char *end, uint32_t *out_bytes, bool *out_valid)
{
    static const uint32_t min_code[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *character = (const unsigned char *)text;
    const uint32_t lead = character[0], bytes = lead < 0x80   ? 1
                                                : lead < 0xc2 ? 0
                                                : lead < 0xe0 ? 2
                                                : lead < 0xf0 ? 3
                                                              : 4;
    uint32_t code = bytes == 1 ? lead : lead & (0x7fu >> bytes);
    bool valid = bytes > 0 && lead <= 0xf4 && (size_t)(end - text) >= bytes;

    INLAY_CHECK(text < end);
    for (uint32_t i = 1; valid && i < bytes; i++) {
        valid = (character[i] & 0xc0u) == 0x80u;
        code = code << 6 | (character[i] & 0x3fu);
    }
    valid = valid && code >= min_code[bytes] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    *out_valid = valid;
    *out_bytes = valid ? bytes : 1;
    return valid ? code : CODE_OF_BYTE + lead;
}

bool regex_is_utf8(const char *text, size_t bytes)
{
    const char *end = text + bytes;
    uint32_t step;
    bool valid = true;

    for (; valid && text < end; text += step)
        (void)decode(text, end, &step, &valid);
    return valid;
}

/* Copies a text that is not UTF-8, with replacement characters for invalid bytes. The caller frees the copy. Returns
 * NULL if out of memory. */
static char *replace_invalid(const char *text, size_t bytes, size_t *out_bytes)
{
    const char *end = text + bytes;
    char *copy = malloc(bytes * 4 + 1), *to = copy;

    while (copy != NULL && text < end) {
        uint32_t step, code;
        bool valid;

        code = decode(text, end, &step, &valid);
        if (valid) {
            memcpy(to, text, step);
            to += step;
        } else {
            *to++ = (char)(0xf0 | code >> 18);
            *to++ = (char)(0x80 | (code >> 12 & 0x3f));
            *to++ = (char)(0x80 | (code >> 6 & 0x3f));
            *to++ = (char)(0x80 | (code & 0x3f));
        }
        text += step;
    }
    *out_bytes = (size_t)(to - copy);
    return copy;
}

inlay_status regex_create(const char *pattern, size_t bytes, struct regex **out_regex, inlay_diag *diag)
{
    /* PCRE2_ALT_CIRCUMFLEX: with (?m), a line begins after each \n, also after one at the end of the text. */
    const uint32_t options = PCRE2_UTF | PCRE2_ALT_CIRCUMFLEX;
    const pcre_library *pcre;
    struct regex *regex = NULL;
    char *mended = NULL, *text = NULL;
    size_t text_bytes = bytes;
    PCRE2_SIZE at = 0;
    int code = 0;
    inlay_status status;

    *out_regex = NULL;
    if (!regex_is_utf8(pattern, bytes) && (mended = replace_invalid(pattern, bytes, &text_bytes)) == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a pattern");
    INLAY_TRY(regex_translate(mended != NULL ? mended : pattern, text_bytes, &text, &text_bytes, diag));
    pcre = pcre_open(diag);
    if (pcre == NULL) {
        status = INLAY_UNSUPPORTED;
        goto done;
    }
    regex = calloc(1, sizeof *regex);
    if (regex == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a pattern");
        goto done;
    }
    *regex = (struct regex){ pcre, pcre->compile((PCRE2_SPTR)text, text_bytes, options, &code, &at, pcre->rules) };
    if (regex->code == NULL) {
        status = pcre_refused((inlay_str){ pattern, bytes }, code, SIZE_MAX, INLAY_INVALID_MODEL, diag);
        goto done;
    }
    *out_regex = regex;
    regex = NULL;
done:
    regex_destroy(regex);
    free(text);
    free(mended);
    return status;
}

void regex_destroy(struct regex *regex)
{
    if (regex != NULL)
        regex->pcre->code_free(regex->code);
    free(regex);
}

size_t regex_scratch_bytes(void)
{
    return OBJECT_BYTES + STATE_INTS * sizeof(int);
}

/* Memory that PCRE2 allocates for one match, taken from the start of the scratch memory. */
struct objects {
    char *at, *end;
};

static void *take_object(size_t bytes, void *user)
{
    struct objects *objects = user;
    char *at = objects->at;

    bytes = (bytes + 15) / 16 * 16;
    if ((size_t)(objects->end - at) < bytes)
        return NULL;
    objects->at += bytes;
    return at;
}

static void leave_object(void *object, void *user)
{
    (void)object;
    (void)user;
}

/* Runs one match on valid UTF-8. */
static inlay_status run_on_utf8(const struct regex *regex, const char *text, size_t bytes, size_t from,
                                uint32_t options, void *scratch, bool *out_found, size_t *out_span, inlay_diag *diag)
{
    const uintptr_t skip = (16 - (uintptr_t)scratch % 16) % 16;
    struct objects objects = { (char *)scratch + skip, (char *)scratch + OBJECT_BYTES };
    pcre2_general_context *memory = regex->pcre->general_context_create(take_object, leave_object, &objects);
    pcre2_match_data *match = memory != NULL ? regex->pcre->match_data_create(1, memory) : NULL;
    int result;

    INLAY_CHECK(scratch != NULL && from <= bytes);
    if (match == NULL)
        return pcre_failed(PCRE2_ERROR_NOMEMORY, diag);
    result = regex->pcre->dfa_match(regex->code, (PCRE2_SPTR)text, bytes, from, options | PCRE2_NO_UTF_CHECK, match,
                                    regex->pcre->limits, (int *)(void *)((char *)scratch + OBJECT_BYTES), STATE_INTS);
    *out_found = result >= 0; /* 0: a match too, without room for the shorter ones */
    if (result < 0)
        return result == PCRE2_ERROR_NOMATCH ? INLAY_OK : pcre_failed(result, diag);
    out_span[0] = regex->pcre->get_ovector_pointer(match)[0];
    out_span[1] = regex->pcre->get_ovector_pointer(match)[1];
    return INLAY_OK;
}

/* Converts a position in a text to one in its copy by replace_invalid(), or back. */
static size_t place_in_copy(const char *text, size_t bytes, size_t place, bool to_text)
{
    size_t original = 0, mended = 0;

    while (original < bytes && (to_text ? mended : original) < place) {
        uint32_t step;
        bool valid;

        (void)decode(text + original, text + bytes, &step, &valid);
        original += step;
        mended += valid ? step : 4;
    }
    return to_text ? original : mended;
}

static inlay_status run_on_copy(const struct regex *regex, const char *text, size_t bytes, size_t from,
                                uint32_t options, void *scratch, bool *out_found, size_t *out_span, inlay_diag *diag)
{
    size_t count = 0;
    char *copy = replace_invalid(text, bytes, &count);
    inlay_status status = copy == NULL ? pcre_failed(PCRE2_ERROR_NOMEMORY, diag)
                                       : run_on_utf8(regex, copy, count, place_in_copy(text, bytes, from, false),
                                                     options, scratch, out_found, out_span, diag);

    if (status == INLAY_OK && *out_found)
        for (int i = 0; i < 2; i++)
            out_span[i] = place_in_copy(text, bytes, out_span[i], true);
    free(copy);
    return status;
}

inlay_status regex_full_match(const struct regex *regex, const char *text, size_t bytes, void *scratch,
                              bool *out_matches, inlay_diag *diag)
{
    size_t span[2] = { 0 };
    const inlay_status status = (regex_is_utf8(text, bytes) ? run_on_utf8 : run_on_copy)(
        regex, text, bytes, 0, PCRE2_ANCHORED, scratch, out_matches, span, diag);

    *out_matches = status == INLAY_OK && *out_matches && span[1] == bytes; /* PCRE2 reports the longest match first */
    return status;
}

inlay_status regex_search(const struct regex *regex, const char *text, size_t bytes, bool is_utf8, size_t from,
                          void *scratch, bool *out_found, size_t *out_begin, size_t *out_end, inlay_diag *diag)
{
    size_t span[2] = { 0 };
    const inlay_status status =
        (is_utf8 ? run_on_utf8 : run_on_copy)(regex, text, bytes, from, 0, scratch, out_found, span, diag);

    if (status == INLAY_OK && *out_found) {
        *out_begin = span[0];
        *out_end = span[1];
    }
    return status;
}
