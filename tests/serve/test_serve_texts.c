/* Texts that share the runs of a decoder: each has the tokens that it has alone. */
#include "client.h"
#include "random.h"
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cmocka_all.h"

enum { TEXTS = 24, LONGEST = 90, MOST_CLIENTS = 8, BODY_BYTES = 2048, TEXT_BYTES = 4096, SHARED = 150 };

static struct serving server;
/* With option reproducible, a decoder whose texts would need padding before them keeps them apart. */
static const struct decoder {
    const char *name, *config;
    void (*write)(const char *path);
    const char *layout;
    size_t clients;     /* the most at a time; memory_budget suffices for them if no states of other texts are kept */
    size_t token_bytes; /* of the states of a token; 0: they do not grow, and cannot be rewound */
    bool guesses;       /* a run can check guesses */
} kinds[] = { { "counted", "options: [reproducible=1]\n", write_counted_decoder,
                "texts share runs, padded at their ends", MOST_CLIENTS, 128, true },
              { "tight", "options: [reproducible=1, memory_budget=1800000]\n", write_counted_decoder,
                "texts share runs, padded at their ends", 1, 128, true },
              { "masked", "options: [reproducible=1]\n", write_masked_decoder, "each text in separate runs",
                MOST_CLIENTS, 128, true },
              { "summing", "options: [reproducible=1, state=old=new]\n", write_summing_decoder,
                "each text in separate runs", MOST_CLIENTS, 0, false },
              { "counting", "options: [reproducible=1, state=old=new]\n", write_counting, "each text in separate runs",
                MOST_CLIENTS, 8, false },
              { "padded", NULL, write_masked_decoder, "texts share runs, padded at their beginnings", MOST_CLIENTS, 128,
                true } };
enum { KINDS = sizeof kinds / sizeof *kinds };
static char asked[TEXTS][BODY_BYTES], alone[TEXTS][TEXT_BYTES];
/* The answers of a server without prefix_memory and lookup_tokens. */
static char plain[KINDS][TEXTS][TEXT_BYTES], beginnings[KINDS][TEXTS][TEXT_BYTES];
static char got[TEXTS][TEXT_BYTES];

static void prepare(void)
{
    serving_prepare_empty(&server);
    for (size_t i = 0; i < KINDS; i++) {
        serving_model(&server, kinds[i].name, kinds[i].config, kinds[i].write);
        serving_tokenizer(&server, kinds[i].name, NULL);
    }
}

/* Requests of many lengths: greedy, sampled, by a grammar, of several texts. */
static void make_requests(const char *model, int64_t most_tokens)
{
    uint64_t seed = 11;

    for (size_t i = 0; i < TEXTS; i++) {
        static const char *const forms[] = { "\"temperature\":0", "\"temperature\":1", "\"temperature\":1,\"n\":3",
                                             "\"temperature\":1,\"guided_regex\":\"([a-z]{3}-)*\"" };
        size_t used = (size_t)snprintf(asked[i], BODY_BYTES,
                                       "{\"model\":\"%s\",\"max_tokens\":%d,\"seed\":%zu,%s,"
                                       "\"prompt\":[",
                                       model, (int)random_between(&seed, 1, most_tokens), i, forms[i % 4]);
        int64_t count = i % 7 == 0 ? 1 : random_between(&seed, 1, i == 5 ? 300 : 40);

        for (int64_t k = 0; k < count && used < BODY_BYTES - 8; k++)
            used += (size_t)snprintf(asked[i] + used, BODY_BYTES - used, "%s%d", k > 0 ? "," : "",
                                     (int)random_between(&seed, 33, 126));
        (void)snprintf(asked[i] + used, BODY_BYTES - used, "]}");
    }
}

/* Requests whose prompts share their first tokens, each with a different number of them. */
static void make_beginnings(const char *model)
{
    uint64_t seed = 5;

    for (size_t i = 0; i < TEXTS; i++) {
        const int64_t same = random_between(&seed, 0, SHARED), count = same + random_between(&seed, 1, 20);
        size_t used = (size_t)snprintf(
            asked[i], BODY_BYTES, "{\"model\":\"%s\",\"max_tokens\":%d,\"seed\":%zu,%s,\"prompt\":[", model,
            (int)random_between(&seed, 1, 30), i, i % 3 == 0 ? "\"temperature\":1,\"n\":2" : "\"temperature\":0.5");

        for (int64_t k = 0; k < count; k++)
            used += (size_t)snprintf(asked[i] + used, BODY_BYTES - used, "%s%d", k > 0 ? "," : "",
                                     k < same ? 33 + (int)(k * k % 89) : (int)random_between(&seed, 33, 126));
        (void)snprintf(asked[i] + used, BODY_BYTES - used, "]}");
    }
}

/* The choices of the answer, without its id, time and usage. */
static void ask(const char *body, char *out)
{
    struct answer answer;
    const char *choices;
    char *usage;

    client_once(&server, "POST", "/v1/completions", "", body, &answer);
    choices = strstr(answer.body, "\"choices\"");
    usage = strstr(answer.body, ",\"usage\"");
    if (usage != NULL)
        *usage = '\0';
    (void)snprintf(out, TEXT_BYTES, "%d %s", answer.code, choices != NULL ? choices : answer.body);
}

typedef struct client_part {
    size_t first, step;
} client_part;

static void *ask_part(void *user)
{
    const client_part *part = user;

    for (size_t i = part->first; i < TEXTS; i += part->step)
        ask(asked[i], got[i]);
    return NULL;
}

static void expect_same(size_t clients)
{
    pthread_t threads[MOST_CLIENTS];
    client_part parts[MOST_CLIENTS];

    for (size_t i = 0; i < clients; i++) {
        parts[i] = (client_part){ i, clients };
        assert_int_equal(pthread_create(&threads[i], NULL, ask_part, &parts[i]), 0);
    }
    for (size_t i = 0; i < clients; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (size_t i = 0; i < TEXTS; i++)
        if (strcmp(got[i], alone[i]) != 0)
            fail_msg("%zu clients: %s\nbecomes %s\nand not %s", clients, asked[i], got[i], alone[i]);
}

static void ask_alone(void)
{
    for (size_t i = 0; i < TEXTS; i++) {
        ask(asked[i], alone[i]);
        assert_memory_equal(alone[i], "200 ", 4);
    }
}

static void test_forms(void **state)
{
    static char text[16384];

    (void)state;
    serving_await(&server, "ready", text, sizeof text);
    for (size_t i = 0; i < KINDS; i++) {
        char line[256];

        (void)snprintf(line, sizeof line, "model '%s', version 1: %s; prompts are read in parts", kinds[i].name,
                       kinds[i].layout);
        assert_non_null(strstr(text, line));
    }
}

static void test_together_as_alone(void **state)
{
    static const size_t clients[] = { 1, 3, MOST_CLIENTS };

    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        make_requests(kinds[k].name, 60);
        ask_alone();
        for (size_t i = 0; i < sizeof clients / sizeof *clients && clients[i] <= kinds[k].clients; i++)
            expect_same(clients[i]);
    }
}

/* Each choice has the seed after that of the one before, and is the text that this seed gives alone. */
static void test_choices_as_alone(void **state)
{
    char many[TEXT_BYTES], one[TEXT_BYTES], body[256];

    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        (void)snprintf(
            body, sizeof body,
            "{\"model\":\"%s\",\"prompt\":[\"abcd\",\"x\"],\"n\":2,\"temperature\":1,\"max_tokens\":40,\"seed\":5}",
            kinds[k].name);
        ask(body, many);
        for (int i = 0; i < 4; i++) {
            const char *text;
            char *end;

            (void)snprintf(body, sizeof body,
                           "{\"model\":\"%s\",\"prompt\":\"%s\",\"temperature\":1,\"max_tokens\":40,\"seed\":%d}",
                           kinds[k].name, i < 2 ? "abcd" : "x", 5 + i);
            ask(body, one);
            text = strstr(one, "\"text\":");
            assert_non_null(text);
            end = strstr(text, ",\"logprobs\"");
            assert_non_null(end);
            *end = '\0';
            assert_non_null(strstr(many, text));
        }
    }
}

/* Begins to stream a text, and reads until its first token. */
static int begin_stream(const char *body)
{
    char text[4096];
    size_t have = 0;
    int fd = client_connect(&server);

    (void)snprintf(text, sizeof text, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
                   strlen(body));
    client_text(fd, text);
    client_text(fd, body);
    text[0] = '\0';
    while (have < sizeof text - 1 && strstr(text, "data: ") == NULL) {
        ssize_t count = recv(fd, text + have, sizeof text - 1 - have, 0);

        if (count <= 0)
            break;
        have += (size_t)count;
        text[have] = '\0';
    }
    return fd;
}

/* A client that disconnects after the first part of its text. */
static void *leave(void *user)
{
    for (int i = 0; i < 6; i++) {
        char body[256];

        (void)snprintf(
            body, sizeof body,
            "{\"model\":\"%s\",\"prompt\":\"leaves\",\"max_tokens\":300,\"temperature\":1,\"n\":2,\"stream\":true}",
            (const char *)user);
        (void)close(begin_stream(body));
    }
    return NULL;
}

static void test_others_leave(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        pthread_t thread;

        if (kinds[k].clients == 1)
            continue;
        make_requests(kinds[k].name, 60);
        ask_alone();
        assert_int_equal(pthread_create(&thread, NULL, leave, (void *)(uintptr_t)kinds[k].name), 0);
        expect_same(3);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

/* A text of 40 tokens ends before another has read 401 tokens of its prompt, 8 for each token of the first: although
 * texts share runs, these two share none. */
static void test_prompts_in_parts(void **state)
{
    static char log[65536], path[256];
    char body[TEXT_BYTES], answer[TEXT_BYTES];
    size_t used;
    int fd;

    (void)state;
    used =
        (size_t)snprintf(body, sizeof body, "{\"model\":\"counted\",\"max_tokens\":8,\"temperature\":0,\"prompt\":[33");
    for (int i = 0; i < 400; i++)
        used += (size_t)snprintf(body + used, sizeof body - used, ",%d", i % 9 + 34);
    (void)snprintf(body + used, sizeof body - used, "]}");
    fd = begin_stream(
        "{\"model\":\"counted\",\"prompt\":\"first\",\"max_tokens\":40,\"temperature\":0,\"stream\":true}");
    ask(body, answer);
    (void)close(fd);
    assert_memory_equal(answer, "200 ", 4);
    (void)serving_path(&server, "access", path, sizeof path);
    for (int tries = 0; tries < 1000; tries++) {
        FILE *file = fopen(path, "r");

        assert_non_null(file);
        log[fread(log, 1, sizeof log - 1, file)] = '\0';
        (void)fclose(file);
        if (strstr(log, "\"batch\":") != NULL && strstr(strstr(log, "\"batch\":") + 1, "\"batch\":") != NULL)
            break;
        (void)usleep(10000);
    }
    if (strstr(log, "\"batch\":1}") == NULL || strstr(log, "\"batch\":2") != NULL)
        fail_msg("the texts shared runs: %s", log);
}

/* With memory for about three texts: the others wait, and some wait again when the texts have grown. */
static void test_little_memory(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        char body[TEXT_BYTES], none[TEXT_BYTES];
        size_t used;

        make_requests(kinds[k].name, 100);
        ask_alone();
        expect_same(kinds[k].clients);
        if (kinds[k].token_bytes < 128)
            continue;
        used = (size_t)snprintf(body, sizeof body, "{\"model\":\"%s\",\"prompt\":[33", kinds[k].name);
        for (int i = 0; i < 400; i++)
            used += (size_t)snprintf(body + used, sizeof body - used, ",%d", i % 9 + 34);
        (void)snprintf(body + used, sizeof body - used, "]}");
        ask(body, none);
        assert_non_null(strstr(none, "the states of the prompt's 401 tokens exceed kv_memory"));
    }
}

static void test_nothing_kept(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        make_beginnings(kinds[k].name);
        ask_alone();
        memcpy(beginnings[k], alone, sizeof alone);
        make_requests(kinds[k].name, LONGEST);
        ask_alone();
        memcpy(plain[k], alone, sizeof alone);
        assert_true(client_cached_tokens(&server, kinds[k].name) == 0);
        assert_true(client_guessed_tokens(&server, kinds[k].name, "read") == 0);
    }
}

/* Texts with a common beginning are the same as from a server that keeps no states. */
static void test_beginnings(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        make_beginnings(kinds[k].name);
        memcpy(alone, beginnings[k], sizeof alone);
        expect_same(1);
        expect_same(kinds[k].clients);
        if (kinds[k].token_bytes > 0 && !(client_cached_tokens(&server, kinds[k].name) > 0))
            fail_msg("%s: no tokens were cached", kinds[k].name);
    }
}

/* Texts are the same if runs read guesses: of states that can be rewound, if a run returns the logits of each token. */
static void test_guesses(void **state)
{
    static const size_t clients[] = { 1, 3 };

    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        for (size_t i = 0; i < sizeof clients / sizeof *clients && clients[i] <= kinds[k].clients; i++) {
            make_requests(kinds[k].name, LONGEST);
            memcpy(alone, plain[k], sizeof alone);
            expect_same(clients[i]);
            make_beginnings(kinds[k].name);
            memcpy(alone, beginnings[k], sizeof alone);
            expect_same(clients[i]);
        }
        if (kinds[k].guesses && !(client_guessed_tokens(&server, kinds[k].name, "right") > 0 &&
                                  client_guessed_tokens(&server, kinds[k].name, "read") >
                                      client_guessed_tokens(&server, kinds[k].name, "right")))
            fail_msg("%s: there were no right and wrong guesses", kinds[k].name);
        if (!kinds[k].guesses && client_guessed_tokens(&server, kinds[k].name, "right") > 0)
            fail_msg("%s: there were guesses", kinds[k].name);
    }
}

/* Writes draft models, which often agree with the decoders: their weights differ a little. */
static void write_drafts(void)
{
    float more[16 * 16];
    uint64_t seed = 8;

    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        more[i] = random_signed(&seed) / 4;
    write_decoders_with(more, more);
    for (size_t k = 0; k < KINDS; k++) {
        char path[256];

        if (!kinds[k].guesses)
            continue;
        (void)snprintf(path, sizeof path, "models/%s/draft", kinds[k].name);
        serving_folder(&server, path);
        (void)snprintf(path, sizeof path, "%s/models/%s/draft/model.onnx", server.folder, kinds[k].name);
        kinds[k].write(path);
    }
    write_decoders_with(NULL, NULL);
}

/* A draft model has to have the tokens of the model; the message names its file. */
static void test_wrong_draft(void **state)
{
    char path[256];

    (void)state;
    serving_file(&server, "models/counted/draft/tokenizer.json",
                 "{\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                 "\"added_tokens\":[],\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"!\":0,\"a\":1}}}",
                 0644);
    client_expect(&server, "POST", "/v2/repository/models/counted/load", AS_ADMIN, "{}", 400,
                  "draft/model.onnx: its tokenizer has");
    (void)snprintf(path, sizeof path, "%s/models/counted/draft/tokenizer.json", server.folder);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/models/counted/draft/model.onnx", server.folder);
    write_relu(path, "y");
    client_expect(&server, "POST", "/v2/repository/models/counted/load", AS_ADMIN, "{}", 400,
                  "model.onnx has no input 'input_ids'");
}

/* Without a config.json, a text ends at the last position of the model's tables, of cosines or of embeddings. */
static void test_last_position(void **state)
{
    enum { POSITIONS = 512, PROMPT = 480 };
    static const char *const models[] = { "counted", "masked" };
    char body[4096], usage[64];

    (void)state;
    (void)snprintf(usage, sizeof usage, "\"completion_tokens\":%d,", POSITIONS - PROMPT);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        size_t used =
            (size_t)snprintf(body, sizeof body,
                             "{\"model\":\"%s\",\"max_tokens\":%d,\"temperature\":0,\"logit_bias\":{\"50\":100,"
                             "\"51\":99.5},\"presence_penalty\":1,\"prompt\":[50",
                             models[i], 2 * POSITIONS);

        for (int k = 1; k < PROMPT; k++)
            used += (size_t)snprintf(body + used, sizeof body - used, ",%d", 50 + k % 2);
        (void)snprintf(body + used, sizeof body - used, "]}");
        client_expect(&server, "POST", "/v1/completions", "", body, 200, usage);
        ask(body, got[0]);
        assert_non_null(strstr(got[0], "length"));
    }
}

/* Reads the numbers of a JSON array after `name`; null is NAN. Returns their number. */
static size_t read_numbers(const char *text, const char *name, double *out, size_t most)
{
    const char *at = strstr(text, name);
    size_t count = 0;

    for (at = at != NULL ? at + strlen(name) : "]"; *at != ']' && *at != '\0' && count < most;) {
        char *end;
        const bool is_null = strncmp(at, "null", 4) == 0;

        out[count++] = is_null ? NAN : strtod(at, &end);
        at = is_null ? at + 4 : end;
        at += *at == ',';
    }
    return count;
}

/* The logits of a run of the whole prompt. */
static void run_whole(const char *model, const int64_t *tokens, size_t count, double *logits)
{
    char body[8192];
    size_t used = (size_t)snprintf(body, sizeof body,
                                   "{\"outputs\":[{\"name\":\"logits\"}],\"inputs\":["
                                   "{\"name\":\"past_key_values.0.key\",\"shape\":[1,2,0,8],\"datatype\":\"FP32\","
                                   "\"data\":[]},{\"name\":\"past_key_values.0.value\",\"shape\":[1,2,0,8],"
                                   "\"datatype\":\"FP32\",\"data\":[]}");
    static const char *const names[] = { "input_ids", "attention_mask", "position_ids" };
    struct answer answer;

    for (int i = 0; i < (strcmp(model, "counted") == 0 ? 2 : 3); i++) {
        used +=
            (size_t)snprintf(body + used, sizeof body - used,
                             ",{\"name\":\"%s\",\"shape\":[1,%zu],\"datatype\":\"INT64\",\"data\":[", names[i], count);
        for (size_t k = 0; k < count; k++)
            used += (size_t)snprintf(body + used, sizeof body - used, "%s%lld", k > 0 ? "," : "",
                                     i == 0   ? (long long)tokens[k]
                                     : i == 1 ? 1LL
                                              : (long long)k);
        used += (size_t)snprintf(body + used, sizeof body - used, "]}");
    }
    (void)snprintf(body + used, sizeof body - used, "]}");
    (void)snprintf(answer.body, sizeof answer.body, "/v2/models/%s/infer", model);
    client_once(&server, "POST", strdupa(answer.body), "", body, &answer);
    if (answer.code != 200)
        fail_msg("%d %s", answer.code, answer.body);
    assert_int_equal(read_numbers(answer.body, "\"data\":[", logits, count * 128), count * 128);
}

static double log_of(const double *logits, int64_t token)
{
    double sum = 0;

    for (int i = 0; i < 128; i++)
        sum += exp(logits[i]);
    return logits[token] - log(sum);
}

/* The log probabilities of a prompt are those of a run of the whole prompt, also if it is read in parts and was read
 * before. */
static void test_scores(void **state)
{
    static const size_t counts[] = { 1, 2, 33, 100 };
    static const char *const models[] = { "counted", "masked" };
    static double logits[100 * 128], values[128], ranked[128];
    uint64_t seed = 3;
    int64_t tokens[100];

    (void)state;
    for (size_t i = 0; i < 2 * sizeof counts / sizeof *counts; i++) {
        const size_t count = counts[i / 2];
        const char *model = models[i % 2];
        struct answer answer;
        char body[2048];
        size_t used = (size_t)snprintf(body, sizeof body,
                                       "{\"model\":\"%s\",\"max_tokens\":0,\"echo\":true,\"logprobs\":1,"
                                       "\"prompt_logprobs\":2,\"prompt\":[",
                                       model);

        for (size_t k = 0; k < count; k++) {
            tokens[k] = random_between(&seed, 33, 126);
            used += (size_t)snprintf(body + used, sizeof body - used, "%s%lld", k > 0 ? "," : "", (long long)tokens[k]);
        }
        (void)snprintf(body + used, sizeof body - used, "]}");
        run_whole(model, tokens, count, logits);
        for (int again = 0; again < 2; again++) {
            const char *rank;

            client_once(&server, "POST", "/v1/completions", "", body, &answer);
            if (answer.code != 200)
                fail_msg("%d %s", answer.code, answer.body);
            assert_int_equal(read_numbers(answer.body, "\"token_logprobs\":[", values, 128), count);
            assert_true(isnan(values[0]));
            rank = strstr(answer.body, "\"prompt_logprobs\":[null");
            assert_non_null(rank);
            assert_non_null(strstr(answer.body, "\"top_logprobs\":[null"));
            assert_non_null(strstr(answer.body, "\"text_offset\":[0"));
            assert_non_null(strstr(answer.body, "\"finish_reason\":\"length\""));
            assert_non_null(strstr(answer.body, "\"completion_tokens\":0,"));
            for (size_t k = 1; k < count; k++) {
                char name[64];

                assert_true(fabs(values[k] - log_of(logits + (k - 1) * 128, tokens[k])) < 1e-5);
                rank = strchr(rank + 1, '{');
                (void)snprintf(name, sizeof name, "\"%lld\":{\"logprob\":", (long long)tokens[k]);
                assert_non_null(strstr(rank, name));
                ranked[k] = strtod(strstr(rank, name) + strlen(name), NULL);
                assert_true(fabs(ranked[k] - values[k]) < 1e-5);
                rank = strstr(rank, "}}");
            }
        }
    }
    /* What is generated after the prompt has its log probability, too, also an end token. */
    client_expect(&server, "POST", "/v1/completions", "",
                  "{\"model\":\"counted\",\"max_tokens\":1,\"temperature\":0,\"echo\":true,\"logprobs\":1,"
                  "\"logit_bias\":{\"65\":100},\"prompt\":\"xy\"}",
                  200, "\"text\":\"xyA\",\"logprobs\":{\"tokens\":[\"x\",\"y\",\"A\"],\"token_logprobs\":[null,-");
    client_expect(&server, "POST", "/v1/completions", "",
                  "{\"model\":\"counted\",\"max_tokens\":1,\"temperature\":0,\"echo\":true,\"logprobs\":1,"
                  "\"logit_bias\":{\"65\":100},\"prompt\":\"xy\",\"stop_token_ids\":[65]}",
                  200, "\"text\":\"xy\",\"logprobs\":{\"tokens\":[\"x\",\"y\",\"A\"]");
    client_expect(&server, "POST", "/v1/completions", "",
                  "{\"model\":\"counted\",\"max_tokens\":1,\"prompt_logprobs\":1,\"stream\":true,\"prompt\":\"xy\"}",
                  400, "prompt_logprobs is not supported in a stream");
    client_stream(&server, "/v1/completions",
                  "{\"model\":\"counted\",\"max_tokens\":1,\"echo\":true,\"logprobs\":0,\"stream\":true,"
                  "\"temperature\":0,\"logit_bias\":{\"65\":100},\"prompt\":\"xy\"}",
                  "[DONE]", got[0], sizeof got[0]);
    assert_non_null(
        strstr(got[0], "\"text\":\"xy\",\"logprobs\":{\"tokens\":[\"x\",\"y\"],\"token_logprobs\":[null,-"));
    assert_non_null(strstr(got[0], "\"text\":\"A\",\"logprobs\":{\"tokens\":[\"A\"],\"token_logprobs\":[-"));
}

/* The largest number of the next JSON object of numbers; *at moves behind it. */
static double largest_of(const char **at)
{
    double best = -INFINITY;
    const char *next = strchr(*at, '{');

    assert_non_null(next);
    while (*next == '{' || *next == ',') {
        char *end;
        double value;

        for (next += 2; *next != '"'; next++)
            next += *next == '\\';
        assert_int_equal(next[1], ':');
        value = strtod(next + 2, &end);
        best = value > best ? value : best;
        next = end;
    }
    assert_int_equal(*next, '}');
    *at = next + 1;
    return best;
}

/* The most probable token from `first` to `last`. */
static int64_t best_token(const double *logits, int64_t first, int64_t last)
{
    int64_t best = first;

    for (int64_t i = first; i <= last; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

/* What lm-evaluation-harness asks for and reads: the log probability of a continuation after its context, of several
 * texts in one request, and whether it is the most probable one, which is the equality of two of the numbers. */
static void test_harness(void **state)
{
    enum { SCORED = 4, CONTEXT = 9, MORE = 4, ALL = CONTEXT + MORE };
    static double logits[ALL * 128], values[ALL + 1];
    int64_t tokens[SCORED][ALL];
    uint32_t greedy = 0;
    uint64_t seed = 8;
    struct answer answer;
    const char *choice;
    char body[2048];
    size_t used = (size_t)snprintf(body, sizeof body,
                                   "{\"model\":\"counted\",\"temperature\":0,\"max_tokens\":1,\"logprobs\":1,"
                                   "\"seed\":1234,\"echo\":true,\"prompt\":[");

    (void)state;
    for (int i = 0; i < SCORED; i++) {
        for (size_t k = 0; k < ALL; k++) {
            tokens[i][k] = random_between(&seed, 33, 126);
            if (k >= CONTEXT && i % 2 == 0) { /* the most probable continuation */
                run_whole("counted", tokens[i], k, logits);
                tokens[i][k] = best_token(logits + (k - 1) * 128, 33, 126);
            }
            used += (size_t)snprintf(body + used, sizeof body - used, "%s%lld",
                                     k > 0   ? ","
                                     : i > 0 ? ",["
                                             : "[",
                                     (long long)tokens[i][k]);
        }
        used += (size_t)snprintf(body + used, sizeof body - used, "]");
    }
    (void)snprintf(body + used, sizeof body - used, "]}");
    client_once(&server, "POST", "/v1/completions", "", body, &answer);
    if (answer.code != 200)
        fail_msg("%d %s", answer.code, answer.body);
    choice = answer.body;
    for (int i = 0; i < SCORED; i++) {
        double sum = 0, expected = 0;
        const char *top;

        choice = strstr(choice, "\"token_logprobs\":[");
        assert_non_null(choice);
        assert_int_equal(read_numbers(choice, "\"token_logprobs\":[", values, ALL + 1), ALL + 1);
        top = strstr(choice, "\"top_logprobs\":[null");
        assert_non_null(top);
        run_whole("counted", tokens[i], ALL, logits);
        for (size_t k = 1; k < ALL; k++) {
            const double largest = largest_of(&top);

            sum += k >= CONTEXT ? values[k] : 0;
            expected += k >= CONTEXT ? log_of(logits + (k - 1) * 128, tokens[i][k]) : 0;
            assert_int_equal(values[k] == largest, tokens[i][k] == best_token(logits + (k - 1) * 128, 0, 127));
            greedy += values[k] == largest;
        }
        assert_true(fabs(sum - expected) < 1e-5 * MORE);
        choice = top;
    }
    assert_true(greedy > 0);
}

/* Asks for 4 tokens after `count` times 'x' and `more`. */
static void expect_cached(const char *model, int count, const char *more, int cached)
{
    char body[512], prompt[256], part[64];

    (void)snprintf(prompt, sizeof prompt, "%.*s%s", count, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", more);
    (void)snprintf(body, sizeof body, "{\"model\":\"%s\",\"prompt\":\"%s\",\"max_tokens\":4,\"temperature\":0}", model,
                   prompt);
    (void)snprintf(part, sizeof part, "\"cached_tokens\":%d}", cached);
    client_expect(&server, "POST", "/v1/completions", "", body, 200, part);
}

/* All tokens but the last one may be those of an earlier text, and the text goes on after an earlier one. States that
 * do not grow cannot be rewound: all tokens of the earlier text have to be the first ones. */
static void test_cached_tokens(void **state)
{
    (void)state;
    expect_cached("counted", 15, "", 0);
    expect_cached("counted", 40, "", 0);
    expect_cached("counted", 40, "", 39);
    expect_cached("counted", 30, "abc", 30);
    expect_cached("counted", 30, "abd", 32);
    expect_cached("counted", 16, "", 0);
    expect_cached("counted", 17, "", 16);
    expect_cached("summing", 20, "", 0);
    expect_cached("summing", 40, "", 20);
    expect_cached("summing", 19, "", 0);
    expect_cached("summing", 20, "", 19);
}

/* The states of earlier texts are dropped if a run needs their memory. */
static void test_memory_budget(void **state)
{
    char body[8192];

    (void)state;
    for (int i = 0; i <= 100; i++) {
        const int count = i < 100 ? 100 : 450;
        size_t used =
            (size_t)snprintf(body, sizeof body, "{\"model\":\"tight\",\"max_tokens\":2,\"prompt\":[%d", 33 + i % 90);

        for (int k = 1; k < count; k++)
            used += (size_t)snprintf(body + used, sizeof body - used, ",%d", 33 + (i / 90 + k * i) % 90);
        (void)snprintf(body + used, sizeof body - used, "]}");
        ask(body, got[0]);
        if (strncmp(got[0], "200 ", 4) != 0)
            fail_msg("a prompt of %d tokens: %s", count, got[0]);
    }
}

/* A model that is loaded again has none of the states of before. */
static void test_loaded_again(void **state)
{
    (void)state;
    expect_cached("masked", 40, "", 0);
    expect_cached("masked", 40, "", 39);
    client_expect(&server, "POST", "/v2/repository/models/masked/load", AS_ADMIN, "{}", 200, "");
    expect_cached("masked", 40, "", 0);
}

static int start(void **state)
{
    static const char *const flags[] = { "--max-sequences", "8", NULL };

    (void)state;
    prepare();
    serving_start(&server, flags);
    return 0;
}

static int start_without(void **state)
{
    static const char *const flags[] = { "--max-sequences", "8", "--prefix-memory", "0", NULL };

    (void)state;
    prepare();
    serving_start(&server, flags);
    return 0;
}

static int start_guessing(void **state)
{
    static const char *const flags[] = { "--max-sequences", "8", "--lookup-tokens", "5", NULL };

    (void)state;
    prepare();
    serving_start(&server, flags);
    return 0;
}

static int start_drafting(void **state)
{
    static const char *const flags[] = { "--max-sequences", "8", "--draft-tokens", "5", "--admin-token-file",
                                         "FOLDER/admins",   NULL };

    (void)state;
    prepare();
    write_drafts();
    serving_tokens(&server);
    serving_start(&server, flags);
    return 0;
}

static int start_in_parts(void **state)
{
    static const char *const flags[] = { "--max-sequences", "8", "--prompt-tokens", "8", "--access-log",
                                         "FOLDER/access",   NULL };

    (void)state;
    prepare();
    serving_start(&server, flags);
    return 0;
}

static int start_with(void **state)
{
    static const char *const flags[] = { "--max-sequences", "8", "--admin-token-file", "FOLDER/admins", NULL };

    (void)state;
    prepare();
    serving_tokens(&server);
    serving_start(&server, flags);
    return 0;
}

static int start_small(void **state)
{
    static const char *const flags[] = { "--max-sequences", "8", "--kv-memory", "49152", NULL };

    (void)state;
    prepare();
    serving_start(&server, flags);
    return 0;
}

static int end(void **state)
{
    (void)state;
    return serving_close(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_forms), cmocka_unit_test(test_together_as_alone),
                                        cmocka_unit_test(test_choices_as_alone), cmocka_unit_test(test_others_leave) };
    const struct CMUnitTest without[] = { cmocka_unit_test(test_nothing_kept), cmocka_unit_test(test_memory_budget) };
    const struct CMUnitTest with[] = { cmocka_unit_test(test_scores),        cmocka_unit_test(test_harness),
                                       cmocka_unit_test(test_cached_tokens), cmocka_unit_test(test_loaded_again),
                                       cmocka_unit_test(test_memory_budget), cmocka_unit_test(test_beginnings) };
    const struct CMUnitTest guessing[] = { cmocka_unit_test(test_guesses), cmocka_unit_test(test_last_position) };
    const struct CMUnitTest drafting[] = { cmocka_unit_test(test_guesses), cmocka_unit_test(test_wrong_draft) };
    const struct CMUnitTest in_parts[] = { cmocka_unit_test(test_prompts_in_parts),
                                           cmocka_unit_test(test_together_as_alone) };
    const struct CMUnitTest small[] = { cmocka_unit_test(test_beginnings), cmocka_unit_test(test_little_memory) };
    int failed;

    (void)signal(SIGPIPE, SIG_IGN);
    failed = cmocka_run_group_tests(tests, start, end);
    failed += cmocka_run_group_tests(without, start_without, end);
    failed += cmocka_run_group_tests(with, start_with, end);
    failed += cmocka_run_group_tests(guessing, start_guessing, end);
    failed += cmocka_run_group_tests(drafting, start_drafting, end);
    failed += cmocka_run_group_tests(in_parts, start_in_parts, end);
    return failed + cmocka_run_group_tests(small, start_small, end);
}
