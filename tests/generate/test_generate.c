/* samples/generate: the tokenizer on a vocabulary of its own, and the sampler. */
#include "cmocka_all.h"
#include "sampler.h"
#include "tokenizer.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Tokens 0 to 255 are the bytes; 256 on what merges make, in order; 1000 and 1001 are added. */
static const char *const merges[] = { "h e",
                                      "l l",
                                      "he ll",
                                      "hell o",
                                      "\xc4\xa0 w",
                                      "o r",
                                      "1 2",
                                      "12 3",
                                      "\xc3\x83 \xc2\xa9",
                                      "a \xc4\xa0",
                                      "\xc4\xa0 \xc4\xa0",
                                      "' s",
                                      "' S" };
enum { HE = 256, LL, HELL, HELLO, SPACE_W, OR, N12, N123, E_ACUTE, A_SPACE, SPACES, APOSTROPHE_S, APOSTROPHE_CAPITAL };

static const char gpt2[] = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}";
static const char cl100k[] =
    "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": "
    "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| "
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|"
    "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
    "\"use_regex\": false}]}";

/* The spelling of a byte, as the format defines it. */
static void spell(unsigned byte, char out[3])
{
    unsigned c = byte, next = 256;

    for (unsigned b = 0; b <= byte; b++) {
        const bool plain = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);

        c = plain ? b : next++;
    }
    (void)snprintf(out, 3, "%c%c", c < 0x80 ? (int)c : (int)(0xc0 | c >> 6), c < 0x80 ? 0 : (int)(0x80 | (c & 63)));
}

static json_t *vocabulary(void)
{
    json_t *vocab = json_object();
    char text[64];

    for (unsigned b = 0; b < 256; b++) {
        spell(b, text);
        json_object_set_new(vocab, text, json_integer((int)b));
    }
    for (unsigned i = 0; i < sizeof merges / sizeof merges[0]; i++) {
        const char *space = strchr(merges[i], ' ');

        (void)snprintf(text, sizeof text, "%.*s%s", (int)(space - merges[i]), merges[i], space + 1);
        json_object_set_new(vocab, text, json_integer(256 + (int)i));
    }
    return vocab;
}

static json_t *description(const char *pre, bool pairs)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < sizeof merges / sizeof merges[0]; i++) {
        const char *space = strchr(merges[i], ' ');

        json_array_append_new(list, pairs ? json_pack("[s%,s]", merges[i], (size_t)(space - merges[i]), space + 1)
                                          : json_string(merges[i]));
    }
    return json_pack("{s:n,s:o,s:{s:s},s:[{s:i,s:s,s:b,s:b},{s:i,s:s,s:b,s:b}],s:{s:s,s:o,s:o}}", "normalizer",
                     "pre_tokenizer", json_loads(pre, 0, NULL), "decoder", "type", "ByteLevel", "added_tokens", "id",
                     1000, "content", "<|end|>", "special", 1, "normalized", 0, "id", 1001, "content", "<|end|>er",
                     "special", 0, "normalized", 0, "model", "type", "BPE", "vocab", vocabulary(), "merges", list);
}

/* The tokenizer of the file; NULL: what is wrong is in error. */
static struct tokenizer *open_text(const char *text, char error[256])
{
    char path[] = "/tmp/tokenizer_XXXXXX";
    const int fd = mkstemp(path);
    struct tokenizer *t;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    t = tokenizer_open(path, error, 256);
    (void)unlink(path);
    return t;
}

static struct tokenizer *open_json(json_t *root, char error[256])
{
    char *text = json_dumps(root, 0);
    struct tokenizer *t = open_text(text, error);

    free(text);
    json_decref(root);
    return t;
}

static void expect(const struct tokenizer *t, const char *text, size_t count, const int64_t *want)
{
    int64_t *got = NULL;
    size_t n = 0;

    assert_true(tokenizer_encode(t, text, true, &got, &n));
    for (size_t i = 0; i < n && i < count; i++)
        if (got[i] != want[i])
            fail_msg("'%s': token %zu is %lld, not %lld", text, i, (long long)got[i], (long long)want[i]);
    assert_int_equal(n, count);
    free(got);
}
#define EXPECT(t, text, ...)                                                                                           \
    expect(t, text, sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), (const int64_t[]){ __VA_ARGS__ })

static void words_and_merges(void **state)
{
    char error[256];

    (void)state;
    for (int pairs = 0; pairs < 2; pairs++) {
        struct tokenizer *t = open_json(description(gpt2, pairs != 0), error);

        if (t == NULL)
            fail_msg("%s", error);
        EXPECT(t, "hello", HELLO);
        EXPECT(t, "hell", HELL);
        EXPECT(t, "hel", HE, 'l');
        EXPECT(t, "hello world", HELLO, SPACE_W, OR, 'l', 'd');
        EXPECT(t, "a b", 'a', ' ', 'b');           /* a space belongs to the word behind it */
        EXPECT(t, "a   b", 'a', SPACES, ' ', 'b'); /* the last of several does */
        EXPECT(t, "a  ", 'a', SPACES);
        EXPECT(t, "12345", N123, '4', '5');
        EXPECT(t, "it's'S", 'i', 't', APOSTROPHE_S, '\'', 'S');
        EXPECT(t, "\xc3\xa9!", E_ACUTE, '!');
        EXPECT(t, "\xff", 0xef, 0xbf, 0xbd); /* no character: U+FFFD */
        EXPECT(t, "x<|end|>hello", 'x', 1000, HELLO);
        EXPECT(t, "<|end|>er<|end|>", 1001, 1000); /* the longest */
        EXPECT(t, "\n\nhe", '\n', '\n', HE);
        tokenizer_close(t);
    }
}

static void words_of_llama(void **state)
{
    char error[256];
    struct tokenizer *t = open_json(description(cl100k, false), error);

    (void)state;
    if (t == NULL)
        fail_msg("%s", error);
    EXPECT(t, "1234", N123, '4'); /* three digits a word */
    EXPECT(t, "it's'S", 'i', 't', APOSTROPHE_S, APOSTROPHE_CAPITAL);
    EXPECT(t, "!hello", '!', HELLO);
    EXPECT(t, "hello world", HELLO, SPACE_W, OR, 'l', 'd');
    EXPECT(t, "a  \n  b", 'a', SPACES, '\n', ' ', ' ', 'b');
    EXPECT(t, " 12", ' ', N12); /* no space before digits */
    tokenizer_close(t);
}

static void decodes_what_it_encoded(void **state)
{
    static const char text[] = "hello world, it's 123 \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x98\x80\n\t<|end|> \x01";
    char error[256], *back = calloc(1, sizeof text);
    struct tokenizer *t = open_json(description(gpt2, false), error);
    int64_t *tokens = NULL;
    size_t count = 0, at = 0, bytes;
    bool special;

    (void)state;
    assert_true(t != NULL && tokenizer_encode(t, text, true, &tokens, &count));
    for (size_t i = 0; i < count; i++) {
        const char *part = tokenizer_bytes(t, tokens[i], &bytes, &special);

        assert_non_null(part);
        assert_int_equal(special, tokens[i] == 1000);
        assert_true(at + bytes < sizeof text);
        memcpy(back + at, part, bytes);
        at += bytes;
    }
    assert_string_equal(back, text);
    assert_null(tokenizer_bytes(t, -1, &bytes, &special));
    assert_null(tokenizer_bytes(t, 999, &bytes, &special));
    assert_int_equal(tokenizer_id(t, "<|end|>"), 1000);
    assert_int_equal(tokenizer_id(t, "nothing"), -1);
    free(tokens);
    free(back);
    tokenizer_close(t);
}

static void wrong_files_are_refused(void **state)
{
    static const struct {
        const char *text, *part;
    } wrong[] = {
        { "{", "line 1" },
        { "{}", "no 'model'" },
        { "", "empty" },
        { "{\"model\": {\"type\": \"Sum\"}}", "Sum" },
        { "{\"model\": {\"type\": \"BPE\"}, \"pre_tokenizer\": {\"type\": \"ByteLevel\"}}", "vocab" },
        { "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": -1}}, \"pre_tokenizer\": {\"type\": \"ByteLevel\"}}",
          "'a'" },
        { "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [7]}, \"pre_tokenizer\": "
          "{\"type\": \"ByteLevel\"}}",
          "merge" },
    };
    char error[256];

    (void)state;
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (open_text(wrong[i].text, error) != NULL)
            fail_msg("%s was taken", wrong[i].text);
        if (strstr(error, wrong[i].part) == NULL)
            fail_msg("%s: %s", wrong[i].text, error);
    }
    assert_null(tokenizer_open("/nowhere/tokenizer.json", error, sizeof error));
    assert_non_null(strstr(error, "/nowhere/tokenizer.json"));
}

/* ------------------------------------------------------------------ the sampler */

enum { COUNT = 5 };

static int64_t next(struct sampler *s, const float *logits, const int64_t *seen, size_t seen_count)
{
    float copy[COUNT];

    memcpy(copy, logits, sizeof copy);
    return sampler_next(s, copy, COUNT, seen, seen_count);
}

static void the_likeliest(void **state)
{
    static const float logits[COUNT] = { 1, NAN, 3, 3, -2 }, none[COUNT] = { NAN, NAN, NAN, NAN, NAN };
    static const int64_t seen[] = { 2, 2, 4, -1, 99 };
    struct sampler s = SAMPLER_INIT;

    (void)state;
    assert_int_equal(next(&s, logits, NULL, 0), 2);
    assert_int_equal(next(&s, none, NULL, 0), -1);
    s.penalty = 1.5f; /* 3 becomes 2 for token 2, once however often it was there */
    assert_int_equal(next(&s, logits, seen, 5), 3);
    s.temperature = 1;
    s.top_k = 1;
    for (s.state = 0; s.state < 50;)
        assert_int_equal(next(&s, logits, seen, 5), 3);
    s.top_k = 0;
    s.top_p = 0;
    assert_int_equal(next(&s, logits, seen, 5), 3);
    assert_int_equal(next(&s, none, NULL, 0), -1);
    sampler_deinit(&s);
}

static void drawn_by_probability(void **state)
{
    static const float logits[COUNT] = { 0, 0.6931472f, -50, 0.6931472f, -50 }; /* 1 : 2 : 0 : 2 : 0 */
    struct sampler s = SAMPLER_INIT, again = SAMPLER_INIT;
    int times[COUNT] = { 0 };

    (void)state;
    s.temperature = again.temperature = 1;
    s.state = again.state = 42;
    for (int i = 0; i < 20000; i++) {
        const int64_t t = next(&s, logits, NULL, 0);

        assert_int_equal(t, next(&again, logits, NULL, 0)); /* a seed decides */
        times[t]++;
    }
    assert_true(abs(times[0] - 4000) < 250 && abs(times[1] - 8000) < 350 && abs(times[3] - 8000) < 350);
    assert_int_equal(times[2] + times[4], 0);
    s.top_p = 0.75f; /* the two likeliest have 0.8 together */
    for (int i = 0; i < 1000; i++)
        assert_int_not_equal(next(&s, logits, NULL, 0), 0);
    s.top_p = 1;
    s.top_k = 2;
    for (int i = 0; i < 1000; i++)
        assert_int_not_equal(next(&s, logits, NULL, 0), 0);
    s.top_k = 0;
    s.temperature = 0.05f; /* far colder: token 0 is a millionth */
    for (int i = 0; i < 1000; i++)
        assert_int_not_equal(next(&s, logits, NULL, 0), 0);
    sampler_deinit(&s);
    sampler_deinit(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_and_merges),        cmocka_unit_test(words_of_llama),
        cmocka_unit_test(decodes_what_it_encoded), cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(the_likeliest),           cmocka_unit_test(drawn_by_probability),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
