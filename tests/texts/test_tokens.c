/* texts/tokens: the tokenizer with a small vocabulary, the sampler, and guesses by repetition. */
#include "cmocka_all.h"
#include "random.h"
#include "texts/tokens/lookup.h"
#include "texts/tokens/rules.h"
#include "texts/tokens/sampler.h"
#include "texts/tokens/tokenizer.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Tokens 0 to 255 are the bytes, from 256 on the results of the merges in order; 1000 and 1001 are added tokens. */
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

/* Writes the character that stands for a byte in the vocabulary, as the byte-level BPE format defines it. */
static void spell_byte(unsigned byte, char out[3])
{
    unsigned code_point = byte, next = 256;

    for (unsigned other = 0; other <= byte; other++) {
        const bool plain =
            (other >= '!' && other <= '~') || (other >= 0xa1 && other <= 0xac) || (other >= 0xae && other <= 0xff);

        code_point = plain ? other : next++;
    }
    (void)snprintf(out, 3, "%c%c", code_point < 0x80 ? (int)code_point : (int)(0xc0 | code_point >> 6),
                   code_point < 0x80 ? 0 : (int)(0x80 | (code_point & 63)));
}

static json_t *vocabulary(void)
{
    json_t *vocab = json_object();
    char text[64];

    for (unsigned b = 0; b < 256; b++) {
        spell_byte(b, text);
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

/* Opens a tokenizer file with this text. NULL: error holds the message. */
static struct tokenizer *open_text(const char *text, char error[256])
{
    char path[] = "/tmp/tokenizer_XXXXXX";
    const int fd = mkstemp(path);
    struct tokenizer *bpe;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    bpe = tokenizer_open(path, error, 256);
    (void)unlink(path);
    return bpe;
}

static struct tokenizer *open_json(json_t *root, char error[256])
{
    char *text = json_dumps(root, 0);
    struct tokenizer *bpe = open_text(text, error);

    free(text);
    json_decref(root);
    return bpe;
}

static void expect(const struct tokenizer *bpe, const char *text, size_t count, const int64_t *want)
{
    int64_t *got = NULL;
    size_t count_got = 0;

    assert_true(tokenizer_encode(bpe, text, true, &got, &count_got));
    for (size_t i = 0; i < count_got && i < count; i++)
        if (got[i] != want[i])
            fail_msg("'%s': token %zu is %lld, not %lld", text, i, (long long)got[i], (long long)want[i]);
    assert_int_equal(count_got, count);
    free(got);
}
#define EXPECT(bpe, text, ...)                                                                                         \
    expect(bpe, text, sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), (const int64_t[]){ __VA_ARGS__ })

static void words_and_merges(void **state)
{
    char error[256];

    (void)state;
    for (int pairs = 0; pairs < 2; pairs++) {
        struct tokenizer *bpe = open_json(description(gpt2, pairs != 0), error);

        if (bpe == NULL)
            fail_msg("%s", error);
        EXPECT(bpe, "hello", HELLO);
        EXPECT(bpe, "hell", HELL);
        EXPECT(bpe, "hel", HE, 'l');
        EXPECT(bpe, "hello world", HELLO, SPACE_W, OR, 'l', 'd');
        EXPECT(bpe, "a b", 'a', ' ', 'b');           /* a space belongs to the following word */
        EXPECT(bpe, "a   b", 'a', SPACES, ' ', 'b'); /* only the last of several spaces does */
        EXPECT(bpe, "a  ", 'a', SPACES);
        EXPECT(bpe, "12345", N123, '4', '5');
        EXPECT(bpe, "it's'S", 'i', 't', APOSTROPHE_S, '\'', 'S');
        EXPECT(bpe, "\xc3\xa9!", E_ACUTE, '!');
        EXPECT(bpe, "\xff", 0xef, 0xbf, 0xbd); /* invalid UTF-8: U+FFFD */
        EXPECT(bpe, "x<|end|>hello", 'x', 1000, HELLO);
        EXPECT(bpe, "<|end|>er<|end|>", 1001, 1000); /* the longest added token matches */
        EXPECT(bpe, "\n\nhe", '\n', '\n', HE);
        tokenizer_close(bpe);
    }
}

static void llama_pretokenizer(void **state)
{
    char error[256];
    struct tokenizer *bpe = open_json(description(cl100k, false), error);

    (void)state;
    if (bpe == NULL)
        fail_msg("%s", error);
    EXPECT(bpe, "1234", N123, '4'); /* at most three digits a word */
    EXPECT(bpe, "it's'S", 'i', 't', APOSTROPHE_S, APOSTROPHE_CAPITAL);
    EXPECT(bpe, "!hello", '!', HELLO);
    EXPECT(bpe, "hello world", HELLO, SPACE_W, OR, 'l', 'd');
    EXPECT(bpe, "a  \n  b", 'a', SPACES, '\n', ' ', ' ', 'b');
    EXPECT(bpe, " 12", ' ', N12); /* no space before digits */
    tokenizer_close(bpe);
}

static void decodes_encoded_text(void **state)
{
    static const char text[] = "hello world, it's 123 \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x98\x80\n\t<|end|> \x01";
    char error[256], *back = calloc(1, sizeof text);
    struct tokenizer *bpe = open_json(description(gpt2, false), error);
    int64_t *tokens = NULL;
    size_t count = 0, at = 0, bytes;
    bool special;

    (void)state;
    assert_true(bpe != NULL && tokenizer_encode(bpe, text, true, &tokens, &count));
    for (size_t i = 0; i < count; i++) {
        const char *part = tokenizer_bytes(bpe, tokens[i], &bytes, &special);

        assert_non_null(part);
        assert_int_equal(special, tokens[i] == 1000);
        assert_true(at + bytes < sizeof text);
        memcpy(back + at, part, bytes);
        at += bytes;
    }
    assert_string_equal(back, text);
    assert_null(tokenizer_bytes(bpe, -1, &bytes, &special));
    assert_null(tokenizer_bytes(bpe, 999, &bytes, &special));
    assert_int_equal(tokenizer_id(bpe, "<|end|>"), 1000);
    assert_int_equal(tokenizer_id(bpe, "nothing"), -1);
    free(tokens);
    free(back);
    tokenizer_close(bpe);
}

static void wrong_files_are_refused(void **state)
{
    static const struct {
        const char *text, *part;
    } wrong[] = {
        { "{", "line 1" },
        { "{}", "no member 'model'" },
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
            fail_msg("%s was accepted", wrong[i].text);
        if (strstr(error, wrong[i].part) == NULL)
            fail_msg("%s: %s", wrong[i].text, error);
    }
    assert_null(tokenizer_open("/nowhere/tokenizer.json", error, sizeof error));
    assert_non_null(strstr(error, "/nowhere/tokenizer.json"));
}

enum { COUNT = 5 };

static int64_t next(struct sampler *sampling, const float *logits, const int64_t *seen, size_t seen_count)
{
    float copy[COUNT];

    memcpy(copy, logits, sizeof copy);
    assert_true(sampler_penalize(sampling, copy, COUNT, seen, seen_count));
    return sampler_next(sampling, copy, COUNT);
}

static void greedy_sampling(void **state)
{
    static const float logits[COUNT] = { 1, NAN, 3, 3, -2 }, none[COUNT] = { NAN, NAN, -INFINITY, NAN, NAN };
    static const int64_t seen[] = { 2, 2, 4, -1, 99 };
    struct sampler sampling = SAMPLER_INIT;

    (void)state;
    assert_int_equal(next(&sampling, logits, NULL, 0), 2);
    assert_int_equal(next(&sampling, none, NULL, 0), SAMPLER_NO_TOKEN);
    sampling.penalty = 1.5f; /* 3 becomes 2 for token 2; applied once although the token occurred twice */
    assert_int_equal(next(&sampling, logits, seen, 5), 3);
    sampling.temperature = 1;
    sampling.top_k = 1;
    for (sampling.state = 0; sampling.state < 50;)
        assert_int_equal(next(&sampling, logits, seen, 5), 3);
    sampling.top_k = 0;
    sampling.top_p = 0;
    assert_int_equal(next(&sampling, logits, seen, 5), 3);
    assert_int_equal(next(&sampling, none, NULL, 0), SAMPLER_NO_TOKEN);
    sampler_deinit(&sampling);
}

static void random_sampling(void **state)
{
    static const float logits[COUNT] = { 0, 0.6931472f, -50, 0.6931472f, -50 }; /* 1 : 2 : 0 : 2 : 0 */
    struct sampler sampling = SAMPLER_INIT, again = SAMPLER_INIT;
    int times[COUNT] = { 0 };

    (void)state;
    sampling.temperature = again.temperature = 1;
    sampling.state = again.state = 42;
    for (int i = 0; i < 20000; i++) {
        const int64_t token = next(&sampling, logits, NULL, 0);

        assert_int_equal(token, next(&again, logits, NULL, 0)); /* the same seed gives the same tokens */
        times[token]++;
    }
    assert_true(abs(times[0] - 4000) < 250 && abs(times[1] - 8000) < 350 && abs(times[3] - 8000) < 350);
    assert_int_equal(times[2] + times[4], 0);
    sampling.top_p = 0.75f; /* the two most likely tokens have 0.8 together */
    for (int i = 0; i < 1000; i++)
        assert_int_not_equal(next(&sampling, logits, NULL, 0), 0);
    sampling.top_p = 1;
    sampling.top_k = 2;
    for (int i = 0; i < 1000; i++)
        assert_int_not_equal(next(&sampling, logits, NULL, 0), 0);
    sampling.top_k = 0;
    sampling.temperature = 0.05f; /* at this temperature token 0 has a probability of about 1e-6 */
    for (int i = 0; i < 1000; i++)
        assert_int_not_equal(next(&sampling, logits, NULL, 0), 0);
    sampler_deinit(&sampling);
    sampler_deinit(&again);
}

/* Restrictions, with the tokens that remain of the probabilities 0.4, 0.3, 0.15, 0.1 and 0.05. Their entropy is 1.394,
 * so that eta_cutoff 0.25 drops those below 0.5 * exp(-1.394) = 0.124. */
static void further_choices(void **state)
{
    static const float logits[COUNT] = { -0.9162907f, -1.2039728f, -1.8971200f, -2.3025851f, -2.9957323f };
    static const struct {
        float sigma, typical, probability, threshold;
        unsigned tokens; /* bits of those that remain */
    } rows[] = {
        { 0, 0, 0, 0, 31 },      { 0, 1, 1, 0.6f, 31 },  { 0.3f, 0, 0, 0, 1 },   { 0.5f, 0, 0, 0, 3 },
        { 1.5f, 0, 0, 0, 7 },    { 0, 0.2f, 0, 0, 2 },   { 0, 0.5f, 0, 0, 3 },   { 0, 0.8f, 0, 0, 7 },
        { 0, 0, 1, 0.12f, 28 },  { 0, 0, 1, 0.35f, 31 }, { 0, 0, 1, 0.25f, 30 }, { 0, 0, 1, 0, 16 },
        { 0, 0.5f, 1, 0.4f, 2 }, { 0, 0, 0.5f, 0, 31 },  { -1, 0, 0, 0, 31 },
    };
    static const struct {
        float epsilon, eta;
        unsigned tokens;
    } cutoffs[] = { { 0.12f, 0, 7 }, { 0.9f, 0, 1 }, { 0, 0.25f, 7 }, { 0, 0.06f, 15 }, { 0.35f, 1, 1 } };
    static const float flat[COUNT] = { 0, 0, 0, 0.1f, 0 };
    static const int64_t seen[] = { 3, 1, 1 };
    struct sampler sampling = SAMPLER_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned tokens = 0;

        sampling.temperature = 1;
        sampling.top_n_sigma = rows[i].sigma;
        sampling.typical_p = rows[i].typical;
        sampling.xtc_probability = rows[i].probability;
        sampling.xtc_threshold = rows[i].threshold;
        for (int k = 0; k < 500; k++)
            tokens |= 1u << next(&sampling, logits, NULL, 0);
        if (tokens != rows[i].tokens)
            fail_msg("row %zu: %u instead of %u", i, tokens, rows[i].tokens);
    }
    sampling.top_n_sigma = sampling.xtc_probability = 0;
    for (size_t i = 0; i < sizeof cutoffs / sizeof *cutoffs; i++) {
        unsigned tokens = 0;

        sampling.epsilon_cutoff = cutoffs[i].epsilon;
        sampling.eta_cutoff = cutoffs[i].eta;
        for (int k = 0; k < 500; k++)
            tokens |= 1u << next(&sampling, logits, NULL, 0);
        if (tokens != cutoffs[i].tokens)
            fail_msg("cutoff %zu: %u instead of %u", i, tokens, cutoffs[i].tokens);
    }
    sampling.temperature = 0;
    sampling.prompt_count = 1;
    sampling.prompt_penalty = 0.5f; /* of token 3, which is that of the prompt */
    assert_int_equal(next(&sampling, (const float[COUNT]){ 0.5f, 0.25f, 0, 0.75f, 0 }, seen, 3), 0);
    assert_int_equal(next(&sampling, (const float[COUNT]){ -4, -4, -4, -3, -5 }, seen, 3), 0);
    sampling.prompt_count = 0;
    sampling.prompt_penalty = 1;
    sampling.penalty = 2; /* of token 3, unless it is too far back */
    assert_int_equal(next(&sampling, flat, seen, 3), 3);
    sampling.frequency = 1;
    for (int64_t last = -1; last <= 4; last++) {
        sampling.last_n = last;
        assert_int_equal(next(&sampling, flat, seen, 3), last == 0 || last >= 3 ? 0 : 3);
    }
    sampler_deinit(&sampling);
}

/* DRY: token 3 would continue the repetition of 0, 1, 2, and is then less probable than the others. */
static void dry_sampling(void **state)
{
    static const float logits[COUNT] = { 0, 0, 0, 1, -1 };
    static const ascii_set characters[COUNT] = { { { 2, 1 } }, { { 5, 0 } }, { { 0, 2 } }, { { 0, 0 } }, { { 4, 4 } } };
    static const int64_t seen[] = { 0, 1, 2, 3, 4, 0, 1, 2 };
    static const struct {
        float multiplier, base;
        uint32_t allowed;
        int64_t last_n;
        size_t breaks, want;
    } rows[] = {
        { 0, 1.75f, 2, 0, 0, 3 },     { 0.5f, 1.75f, 2, 0, 0, 3 },  { 0.6f, 1.75f, 2, 0, 0, 0 },
        { 0.6f, 1.75f, 3, 0, 0, 3 },  { 1.1f, 1.75f, 3, 0, 0, 0 },  { 9, 1.75f, 4, 0, 0, 3 },
        { 9, 1.75f, 2, 6, 0, 3 },     { 9, 1.75f, 2, 7, 0, 0 },     { 9, 1.75f, 2, -1, 0, 3 },
        { 9, 1.75f, 2, 0, COUNT, 3 }, { 9, 1.75f, 1, 0, COUNT, 0 }, { 1.1f, 1, 1, 0, 0, 0 },
    };
    struct sampler sampling = SAMPLER_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sampling.dry.multiplier = rows[i].multiplier;
        sampling.dry.base = rows[i].base;
        sampling.dry.allowed = rows[i].allowed;
        sampling.dry.last_n = rows[i].last_n;
        sampling.dry.breakers = (ascii_set){ { 1, 8 } };
        sampling.dry.characters = characters;
        sampling.dry.character_count = rows[i].breaks;
        if (next(&sampling, logits, seen, 8) != (int64_t)rows[i].want)
            fail_msg("row %zu", i);
    }
    sampler_deinit(&sampling);
}

enum { WORDS = 7, LONGEST = 14 };

static void draw_tokens(uint64_t *seed, int64_t *tokens, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tokens[i] = (int64_t)random_below(seed, WORDS);
}

/* Whether the text [count] ends with the sequence [length]. */
static bool ends_with(const int64_t *text, size_t count, const int64_t *sequence, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (length > count || text[count - length + i] != sequence[i])
            return false;
    return true;
}

/* Whether the last `size` tokens of the text [count] are also elsewhere in its first `end` tokens. */
static bool repeats(const int64_t *text, size_t count, size_t end, size_t size)
{
    for (size_t at = 0; at + size <= end; at++)
        if (ends_with(text, count, text + at, size))
            return true;
    return false;
}

static bool has(const token_list *list, int64_t token)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->tokens[i] == token)
            return true;
    return false;
}

/* The logit of a token after the rules, by the text that it would make. */
static float expected(const token_rules *rules, const token_place *place, float logit, int64_t token)
{
    const token_list ends = { (int64_t *)(uintptr_t)place->ends, place->end_count };
    const bool is_first = place->count == place->prompt_count + (rules->first >= 0 && place->prompt_count == 1);
    const double steps = (double)(place->count - place->prompt_count) - (double)rules->decay_start;
    int64_t text[LONGEST + 1];

    memcpy(text, place->tokens, place->count * sizeof *text);
    text[place->count] = token;
    for (uint32_t i = 0; i < rules->sequences.count; i++) {
        const token_sequence *sequence = &rules->sequences.items[i];

        if ((sequence->list.count == 1 || sequence->list.count <= place->count) &&
            ends_with(text, place->count + 1, sequence->list.tokens, sequence->list.count))
            logit += sequence->bias;
    }
    if ((rules->no_repeat > 0 && repeats(text, place->count + 1, place->count, rules->no_repeat)) ||
        (rules->no_copy > 0 && repeats(text, place->count + 1, place->prompt_count, rules->no_copy)) ||
        (place->forbids_ends && has(&ends, token)))
        logit = -INFINITY;
    if (rules->first >= 0 && place->count == 1)
        logit = token == rules->first ? 0 : -INFINITY;
    if (rules->last.count > 0 && place->is_last)
        logit = has(&rules->last, token) ? 0 : -INFINITY;
    if (rules->decay > 0 && steps > 0 && has(&ends, token) && logit > -INFINITY)
        logit += (float)(fabs((double)logit) * (pow(rules->decay, steps) - 1));
    return has(&rules->suppressed, token) || (is_first && has(&rules->first_not, token)) ? -INFINITY : logit;
}

/* Rules of all kinds, alone and together, against their definitions. */
static void rules_of_tokens(void **state)
{
    unsigned changed = 0;
    uint64_t seed = 1;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        int64_t text[LONGEST], ends[2], lists[3][2];
        token_rules rules = TOKEN_RULES_INIT;
        token_place place = { .tokens = text, .ends = ends };
        float logits[WORDS], given[WORDS];

        draw_tokens(&seed, text, LONGEST);
        draw_tokens(&seed, ends, 1);
        ends[1] = (ends[0] + 1 + (int64_t)random_below(&seed, WORDS - 1)) % WORDS; /* another one */
        draw_tokens(&seed, lists[0], 6);
        place.count = 1 + random_below(&seed, LONGEST);
        place.prompt_count = 1 + random_below(&seed, place.count);
        place.end_count = 1 + (uint32_t)random_below(&seed, 2);
        place.forbids_ends = random_below(&seed, 4) == 0;
        place.is_last = random_below(&seed, 4) == 0;
        rules.no_repeat = random_below(&seed, 3) == 0 ? (uint32_t)random_below(&seed, 5) : 0;
        rules.no_copy = random_below(&seed, 3) == 0 ? (uint32_t)random_below(&seed, 5) : 0;
        rules.first = random_below(&seed, 4) == 0 ? (int64_t)random_below(&seed, WORDS) : -1;
        rules.suppressed = (token_list){ lists[0], (uint32_t)random_below(&seed, 3) };
        rules.first_not = (token_list){ lists[1], (uint32_t)random_below(&seed, 3) };
        rules.last = (token_list){ lists[2], random_below(&seed, 4) == 0 ? 1 + (uint32_t)random_below(&seed, 2) : 0 };
        rules.decay = random_below(&seed, 3) == 0 ? 0.5 + (double)random_below(&seed, 100) / 64 : 0;
        rules.decay_start = random_below(&seed, 6);
        for (uint64_t k = random_below(&seed, 3); k > 0; k--) {
            int64_t sequence[4];

            draw_tokens(&seed, sequence, 4);
            assert_true(sequence_add(&rules.sequences, sequence, 1 + (uint32_t)random_below(&seed, 4),
                                     random_below(&seed, 2) == 0 ? -INFINITY : (float)random_below(&seed, 64) / 8 - 4));
        }
        for (int k = 0; k < WORDS; k++)
            logits[k] = given[k] = (float)random_below(&seed, 64) / 8 - 4;
        rules_weigh(&rules.sequences, &place, logits, WORDS);
        rules_restrict(&rules, &place, logits, WORDS);
        for (int k = 0; k < WORDS; k++) {
            const float want = expected(&rules, &place, given[k], k);

            changed += want != given[k];
            if (!(logits[k] == want))
                fail_msg("case %d, token %d: %g, not %g", i, k, (double)logits[k], (double)want);
        }
        sequences_deinit(&rules.sequences);
    }
    assert_true(changed > 10000);
}

static void guesses_by_repetition(void **state)
{
    static const struct {
        int64_t tokens[12];
        size_t count, most;
        int64_t guesses[6];
    } rows[] = {
        { { 1, 2, 3, 4, 5, 1, 2 }, 7, 3, { 3, 4, 5 } },
        { { 7, 1, 2, 3, 9, 8, 2, 3, 5, 1, 2, 3 }, 12, 2, { 9, 8 } }, /* three tokens before the later two */
        { { 2, 3, 4, 2, 3, 5, 2, 3 }, 8, 1, { 5 } },                 /* the latest of two */
        { { 6, 6, 6 }, 3, 4, { 6, 6, 6, 6 } },                       /* beyond the end */
        { { 0, 4, 5, 4, 5 }, 5, 6, { 4, 5, 4, 5, 4, 5 } },
    };
    static const int64_t different[] = { 1, 2, 3, 1, 3 };
    int64_t guesses[6];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(lookup_next(rows[i].tokens, rows[i].count, rows[i].most, guesses), rows[i].most);
        assert_memory_equal(guesses, rows[i].guesses, rows[i].most * sizeof *guesses);
    }
    for (size_t count = 0; count <= sizeof different / sizeof *different; count++)
        assert_int_equal(lookup_next(different, count, 6, guesses), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_and_merges),     cmocka_unit_test(llama_pretokenizer),
        cmocka_unit_test(decodes_encoded_text), cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(greedy_sampling),      cmocka_unit_test(random_sampling),
        cmocka_unit_test(further_choices),      cmocka_unit_test(dry_sampling),
        cmocka_unit_test(rules_of_tokens),      cmocka_unit_test(guesses_by_repetition),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
