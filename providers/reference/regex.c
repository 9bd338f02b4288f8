#include "regex.h"
#include "pcre.h"
#include "regex_re2.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Scratch memory: an object of PCRE2's that receives a match, then the automaton's states, three integers each, for
 * this place of the text and the next. */
enum { OBJECT_BYTES = 1024, STATE_INTS = 2 * 3 * REGEX_WAYS + 64 };
/* Bytes that are no part of UTF-8 stand in PCRE2's texts and patterns for the last characters of private use. */
enum { CODE_OF_BYTE = 0x10ff00 };

struct regex {
    const pcre_library *pcre;
    pcre2_code *code;
};

/* The code point at text, and its bytes; CODE_OF_BYTE + byte where it is none. */
static uint32_t decode(const char *text, const char *end, uint32_t *out_bytes, bool *out_valid)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *s = (const unsigned char *)text;
    const uint32_t lead = s[0], bytes = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    uint32_t code = bytes == 1 ? lead : lead & (0x7fu >> bytes);
    bool valid = bytes > 0 && lead <= 0xf4 && (size_t)(end - text) >= bytes;

    for (uint32_t i = 1; valid && i < bytes; i++) {
        valid = (s[i] & 0xc0u) == 0x80u;
        code = code << 6 | (s[i] & 0x3fu);
    }
    valid = valid && code >= least[bytes] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
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

/* A copy of a text that is not UTF-8, with characters for its bytes that are none. The caller's, NULL without memory.
 */
static char *mend(const char *text, size_t bytes, size_t *out_bytes)
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
    /* Behind each \n is a line's beginning, with (?m), also at the end of the text. */
    const uint32_t options = PCRE2_UTF | PCRE2_ALT_CIRCUMFLEX;
    const pcre_library *pcre;
    struct regex *re = NULL;
    char *mended = NULL, *text = NULL;
    size_t text_bytes = bytes;
    PCRE2_SIZE at = 0;
    int code = 0;
    inlay_status status;

    *out_regex = NULL;
    if (!regex_is_utf8(pattern, bytes) && (mended = mend(pattern, bytes, &text_bytes)) == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a pattern");
    INLAY_TRY(regex_translate(mended != NULL ? mended : pattern, text_bytes, &text, &text_bytes, diag));
    pcre = pcre_open(diag);
    if (pcre == NULL) {
        status = INLAY_UNSUPPORTED;
        goto done;
    }
    re = calloc(1, sizeof *re);
    if (re == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a pattern");
        goto done;
    }
    *re = (struct regex){ pcre, pcre->compile((PCRE2_SPTR)text, text_bytes, options, &code, &at, pcre->rules) };
    if (re->code == NULL) {
        status = pcre_refused((inlay_str){ pattern, bytes }, code, SIZE_MAX, INLAY_INVALID_MODEL, diag);
        goto done;
    }
    *out_regex = re;
    re = NULL;
done:
    regex_destroy(re);
    free(text);
    free(mended);
    return status;
}

void regex_destroy(struct regex *re)
{
    if (re != NULL)
        re->pcre->code_free(re->code);
    free(re);
}

size_t regex_scratch_bytes(void)
{
    return OBJECT_BYTES + STATE_INTS * sizeof(int);
}

/* What PCRE2 allocates for one match, from the beginning of the scratch memory. */
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

/* The text is UTF-8. */
static inlay_status run(const struct regex *re, const char *text, size_t bytes, size_t from, uint32_t options,
                        void *scratch, bool *out_found, size_t *out_span, inlay_diag *diag)
{
    const uintptr_t skip = (16 - (uintptr_t)scratch % 16) % 16;
    struct objects objects = { (char *)scratch + skip, (char *)scratch + OBJECT_BYTES };
    pcre2_general_context *memory = re->pcre->general_context_create(take_object, leave_object, &objects);
    pcre2_match_data *match = memory != NULL ? re->pcre->match_data_create(1, memory) : NULL;
    int n;

    if (match == NULL)
        return pcre_failed(PCRE2_ERROR_NOMEMORY, diag);
    n = re->pcre->dfa_match(re->code, (PCRE2_SPTR)text, bytes, from, options | PCRE2_NO_UTF_CHECK, match,
                            re->pcre->limits, (int *)(void *)((char *)scratch + OBJECT_BYTES), STATE_INTS);
    *out_found = n >= 0; /* 0: shorter ones match as well */
    if (n < 0)
        return n == PCRE2_ERROR_NOMATCH ? INLAY_OK : pcre_failed(n, diag);
    out_span[0] = re->pcre->get_ovector_pointer(match)[0];
    out_span[1] = re->pcre->get_ovector_pointer(match)[1];
    return INLAY_OK;
}

/* The place in a text's mended copy as one in the text, or the other way. */
static size_t mended_place(const char *text, size_t bytes, size_t place, bool to_text)
{
    size_t here = 0, there = 0;

    while (here < bytes && (to_text ? there : here) < place) {
        uint32_t step;
        bool valid;

        (void)decode(text + here, text + bytes, &step, &valid);
        here += step;
        there += valid ? step : 4;
    }
    return to_text ? here : there;
}

static inlay_status run_mended(const struct regex *re, const char *text, size_t bytes, size_t from, uint32_t options,
                               void *scratch, bool *out_found, size_t *out_span, inlay_diag *diag)
{
    size_t count = 0;
    char *copy = mend(text, bytes, &count);
    inlay_status status = copy == NULL ? pcre_failed(PCRE2_ERROR_NOMEMORY, diag)
                                       : run(re, copy, count, mended_place(text, bytes, from, false), options, scratch,
                                             out_found, out_span, diag);

    if (status == INLAY_OK && *out_found)
        for (int i = 0; i < 2; i++)
            out_span[i] = mended_place(text, bytes, out_span[i], true);
    free(copy);
    return status;
}

inlay_status regex_full_match(const struct regex *re, const char *text, size_t bytes, void *scratch, bool *out_matches,
                              inlay_diag *diag)
{
    size_t span[2] = { 0 };
    const inlay_status status = (regex_is_utf8(text, bytes) ? run : run_mended)(re, text, bytes, 0, PCRE2_ANCHORED,
                                                                                scratch, out_matches, span, diag);

    *out_matches = status == INLAY_OK && *out_matches && span[1] == bytes; /* the longest */
    return status;
}

inlay_status regex_search(const struct regex *re, const char *text, size_t bytes, bool is_utf8, size_t from,
                          void *scratch, bool *out_found, size_t *out_begin, size_t *out_end, inlay_diag *diag)
{
    size_t span[2] = { 0 };
    const inlay_status status = (is_utf8 ? run : run_mended)(re, text, bytes, from, 0, scratch, out_found, span, diag);

    if (status == INLAY_OK && *out_found) {
        *out_begin = span[0];
        *out_end = span[1];
    }
    return status;
}
