/* test_tokenizers.c - tokenizer.json: every step compared with the library `tokenizers`, whose results are in
 * tokenizer_cases.json; patterns in PCRE2 compared with the hand-written matchers. */
#include "cmocka_all.h"
#include "random.h"
#include "prepost/text/pattern.h"
#include "prepost/text/text.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static text_tokenizer *open_case(const json_t *models, const json_t *one)
{
    json_t *whole = json_deep_copy(json_object_get(one, "tokenizer"));
    const char *model = json_string_value(json_object_get(one, "model"));
    inlay_diag diag = INLAY_DIAG_INIT;
    text_tokenizer *tokenizer = NULL;
    char *text;

    assert_int_equal(json_object_set(whole, "model", json_object_get(models, model)), 0);
    text = json_dumps(whole, 0);
    json_decref(whole);
    assert_non_null(text);
    if (text_open(text, strlen(text), &tokenizer, &diag) != INLAY_OK)
        fail_msg("%s: %.300s", diag.text, text);
    free(text);
    return tokenizer;
}

static void check_text(const text_tokenizer *tokenizer, const json_t *text, const json_t *wanted)
{
    const json_t *ids = json_array_get(wanted, 0), *back = json_array_get(wanted, 1);
    inlay_diag diag = INLAY_DIAG_INIT;
    text_ids got = { .list = NULL };
    char *decoded = NULL;
    size_t bytes = 0;

    assert_int_equal(text_encode(tokenizer, json_string_value(text), json_string_length(text), true, &got, &diag),
                     INLAY_OK);
    assert_int_equal(got.count, json_array_size(ids));
    for (size_t i = 0; i < got.count; i++)
        assert_int_equal(got.list[i], json_integer_value(json_array_get(ids, i)));
    assert_int_equal(text_decode(tokenizer, got.list, got.count, true, &decoded, &bytes, &diag), INLAY_OK);
    assert_int_equal(bytes, json_string_length(back));
    assert_memory_equal(decoded, json_string_value(back), bytes);
    free(decoded);
    free(got.list);
}

static void steps_are_those_of_the_library(void **state)
{
    json_error_t why;
    json_t *root = json_load_file(TOKENIZER_CASES, JSON_ALLOW_NUL, &why), *one, *index;
    const json_t *texts = json_object_get(root, "texts");
    size_t i, k;

    (void)state;
    assert_true(json_array_size(json_object_get(root, "cases")) > 150);
    json_array_foreach(json_object_get(root, "cases"), i, one) {
        text_tokenizer *tokenizer = open_case(json_object_get(root, "models"), one);

        json_array_foreach(json_object_get(one, "texts"), k, index)
            check_text(tokenizer, json_array_get(texts, (size_t)json_integer_value(index)),
                       json_array_get(json_object_get(one, "results"), k));
        text_close(tokenizer);
    }
    json_decref(root);
}

static const char *const refused[] = {
    "\"normalizer\":{\"type\":\"Rot13\"}",
    "\"normalizer\":{\"type\":\"Replace\",\"content\":\"\"}",
    "\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}",
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a)\\\\1\"},\"behavior\":\"Removed\"}",
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a[b]]\"},\"behavior\":\"Removed\"}",
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a-z&&[^b]]\"},\"behavior\":\"Removed\"}",
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a(?i)b|c\"},\"behavior\":\"Removed\"}",
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?x) a\"},\"behavior\":\"Removed\"}",
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\R\"},\"behavior\":\"Removed\"}",
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{In_Basic_Latin}\"},\"behavior\":\"Removed\"}",
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{Klingon}\"},\"behavior\":\"Removed\"}",
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},\"behavior\":\"Removed\"}",
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"*a\"},\"behavior\":\"Removed\"}",
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Doubled\"}",
    "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"}",
    "\"decoder\":{\"type\":\"Morse\"}",
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}}]}",
    "\"dropout\":0.1",
};

static void unknown_steps_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const bool of_model = strncmp(refused[i], "\"dropout", 8) == 0;
        inlay_diag diag = INLAY_DIAG_INIT;
        text_tokenizer *tokenizer = NULL;
        char text[400];

        (void)snprintf(text, sizeof text, "{%s%s\"model\":{\"type\":\"BPE\",%s%s\"vocab\":{\"a\":0},\"merges\":[]}}",
                       of_model ? "" : refused[i], of_model ? "" : ",", of_model ? refused[i] : "",
                       of_model ? "," : "");
        assert_int_not_equal(text_open(text, strlen(text), &tokenizer, &diag), INLAY_OK);
        assert_true(diag.text[0] != '\0');
        assert_null(tokenizer);
    }
}

/* A pattern that takes too many steps is an error, not a wrong token. */
static void exponential_patterns_fail(void **state)
{
    static const char file[] = "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a*)*b\"},\"behavior\":"
                               "\"Removed\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}";
    static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac";
    inlay_diag diag = INLAY_DIAG_INIT;
    text_tokenizer *tokenizer = NULL;
    text_ids ids = { .list = NULL };
    inlay_status status;

    (void)state;
    assert_int_equal(text_open(file, sizeof file - 1, &tokenizer, &diag), INLAY_OK);
    status = text_encode(tokenizer, text, sizeof text - 1, false, &ids, &diag);
    assert_true(status == INLAY_LIMIT_EXCEEDED || (status == INLAY_OK && ids.count == 56));
    free(ids.list);
    text_close(tokenizer);
}

static size_t put_character(uint32_t c, char *to)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 63));
        to[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    to[0] = (char)(0xf0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 63));
    to[2] = (char)(0x80 | (c >> 6 & 63));
    to[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* Text of white space, contractions and letters of 24 scripts. */
static size_t random_text(uint64_t *seed, char *to, size_t characters)
{
    static const uint32_t ranges[][2] = {
        { 0x20, 0x7e },     { 0xa0, 0x17f },    { 0x370, 0x3ff },   { 0x400, 0x4ff },    { 0x531, 0x556 },
        { 0x5d0, 0x5ea },   { 0x627, 0x669 },   { 0x904, 0x96f },   { 0x985, 0x9b9 },    { 0xb85, 0xbb9 },
        { 0xe01, 0xe3a },   { 0xe81, 0xeb0 },   { 0xf00, 0xf47 },   { 0x10a0, 0x10ff },  { 0x1100, 0x11ff },
        { 0x1200, 0x1248 }, { 0x13a0, 0x13f5 }, { 0x1780, 0x17e9 }, { 0x2000, 0x206f },  { 0x2150, 0x218b },
        { 0x3000, 0x30ff }, { 0x4e00, 0x9fa5 }, { 0xac00, 0xd7a3 }, { 0x1f300, 0x1f64f }
    };
    static const char *const parts[] = { "'s", "'LL", "'\xc5\xbf", " ", "  ", "\n",          "\r\n",
                                         "\t", "123", "\xc2\xa0",  "'", "a",  "\xe1\xa0\x8e" };
    size_t bytes = 0;

    for (size_t i = 0; i < characters; i++) {
        const size_t at = random_below(seed, 2 * sizeof parts / sizeof *parts);
        const uint32_t *range = ranges[random_below(seed, sizeof ranges / sizeof *ranges)];

        if (at < sizeof parts / sizeof *parts) {
            memcpy(to + bytes, parts[at], strlen(parts[at]));
            bytes += strlen(parts[at]);
        } else {
            bytes += put_character(range[0] + (uint32_t)random_below(seed, range[1] - range[0] + 1), to + bytes);
        }
    }
    return bytes;
}

/* The hand-written matchers find what PCRE2 finds with the same expression. */
static void matchers_are_their_patterns(void **state)
{
    static const char *const expressions[] = {
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
        "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
        "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+",
    };
    enum { TEXTS = 3000, CHARACTERS = 40 };
    char text[CHARACTERS * 4];
    uint64_t seed = 11;

    (void)state;
    for (size_t e = 0; e < sizeof expressions / sizeof *expressions; e++) {
        const word_matcher match = find_word_matcher(expressions[e]);
        inlay_diag diag = INLAY_DIAG_INIT;
        text_pattern *pattern = NULL;
        void *scratch = NULL;

        assert_non_null(match);
        assert_int_equal(pattern_open_pcre(expressions[e], &pattern, &diag), INLAY_OK);
        for (int i = 0; i < TEXTS; i++) {
            const size_t bytes = random_text(&seed, text, 1 + random_below(&seed, CHARACTERS));
            size_t begin = 0, end = 0, fast_begin = 0, fast_end = 0;
            bool found = true;

            for (size_t at = 0; found; at = end) {
                assert_int_equal(pattern_find(pattern, &scratch, text, bytes, at, &found, &begin, &end, &diag),
                                 INLAY_OK);
                assert_int_equal(find_word(match, text, bytes, at, &fast_begin, &fast_end), found);
                if (found && (begin != fast_begin || end != fast_end))
                    fail_msg("expression %zu, byte %zu of '%.*s': [%zu, %zu), not [%zu, %zu)", e, at, (int)bytes, text,
                             fast_begin, fast_end, begin, end);
            }
        }
        pattern_free_scratch(pattern, scratch);
        pattern_close(pattern);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_the_library),
        cmocka_unit_test(unknown_steps_are_refused),
        cmocka_unit_test(exponential_patterns_fail),
        cmocka_unit_test(matchers_are_their_patterns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
