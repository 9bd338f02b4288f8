/* Heads that guess from the hidden states of the model: the texts are those without a head, with fewer runs. */
#include "client.h"
#include "random.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cmocka_all.h"

enum { TEXTS = 20, BODY_BYTES = 2048, TEXT_BYTES = 4096, CLIENTS = 3 };

static struct serving server;
#define OPTIONS "options: [reproducible=1]\n"
static const struct head {
    const char *name, *config;
    void (*write)(const char *path);
    void (*write_head)(const char *path);
    double share; /* of right guesses, at least */
} heads[] = { { "mtp", OPTIONS, write_hidden_decoder, write_mtp_head, 0.8 },
              { "half", OPTIONS, write_half_decoder, write_half_head, 0.7 },
              { "eagle", OPTIONS, write_hidden_decoder, write_eagle_head, 0.82 },
              { "eagle3", OPTIONS "draft_hidden: hidden_states.0,hidden_states.7\n", write_layers_decoder,
                write_eagle3_head, 0.4 }, /* it lacks tokens: the more guesses at once, the fewer are right */
              { "single", OPTIONS, write_layers_decoder, write_single_head, 0.75 },
              { "lookup", OPTIONS "draft_hidden: hidden_states.0,hidden_states.7\n", write_layers_decoder,
                write_lookup_head, 0.4 },
              { "shared", OPTIONS, write_tanh_decoder, write_shared_head, 0.7 } };
enum { HEADS = sizeof heads / sizeof *heads };
static char asked[TEXTS][BODY_BYTES], got[TEXTS][TEXT_BYTES];
static char plain[HEADS][TEXTS][TEXT_BYTES]; /* of a server that uses no heads */
static double plain_runs[HEADS];

static const char *head_path(const char *model, const char *file, char path[256])
{
    (void)snprintf(path, 256, "%s/models/%s/draft/%s", server.folder, model, file);
    return path;
}

/* Table d2t of 94 tokens from '!' on, as a safetensors file. */
static void write_table(const char *path, int32_t offset)
{
    static const char header[] = "{\"d2t\":{\"dtype\":\"I32\",\"shape\":[94],\"data_offsets\":[0,376]}}";
    const uint64_t bytes = sizeof header - 1; /* little-endian, like the CPUs of this test */
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_true(fwrite(&bytes, sizeof bytes, 1, file) == 1 && fwrite(header, bytes, 1, file) == 1);
    for (int i = 0; i < 94; i++)
        assert_true(fwrite(&offset, sizeof offset, 1, file) == 1);
    assert_int_equal(fclose(file), 0);
}

static void prepare(void)
{
    char path[256];

    serving_prepare_empty(&server);
    for (size_t i = 0; i < HEADS; i++) {
        serving_model(&server, heads[i].name, heads[i].config, heads[i].write);
        serving_tokenizer(&server, heads[i].name, NULL);
        (void)snprintf(path, sizeof path, "models/%s/draft", heads[i].name);
        serving_folder(&server, path);
        heads[i].write_head(head_path(heads[i].name, "model.onnx", path));
    }
    serving_file(&server, "models/single/draft/config.json",
                 "{\"eagle_config\":{\"eagle_aux_hidden_state_layer_ids\":[0,7]}}", 0644);
    write_table(head_path("single", "d2t.safetensors", path), '!');
    write_table(head_path("lookup", "d2t.safetensors", path), '!');
    serving_tokens(&server);
}

/* Prompts of many lengths, some with a common beginning; greedy, sampled, of several texts. */
static void make_requests(const char *model)
{
    static const char *const forms[] = { "\"temperature\":0", "\"temperature\":1", "\"temperature\":0.7" };
    uint64_t seed = 4;

    for (size_t i = 0; i < TEXTS; i++) {
        const int64_t count = i == 5 ? 300 : random_between(&seed, 2, 60), same = i % 2 == 0 ? 24 : 0;
        size_t used = (size_t)snprintf(asked[i], BODY_BYTES,
                                       "{\"model\":\"%s\",\"max_tokens\":%d,\"seed\":%zu,%s,\"n\":%d,\"prompt\":[",
                                       model, (int)random_between(&seed, 30, 50), i, forms[i % 3], i % 9 == 4 ? 2 : 1);

        for (int64_t k = 0; k < count; k++)
            used += (size_t)snprintf(asked[i] + used, BODY_BYTES - used, "%s%d", k > 0 ? "," : "",
                                     k < same ? 40 + (int)k : (int)random_between(&seed, 33, 126));
        (void)snprintf(asked[i] + used, BODY_BYTES - used, "]}");
    }
}

/* The choices of the answer, without its id, time and usage. */
static void *ask_part(void *user)
{
    const size_t *part = user;

    for (size_t i = part[0]; i < TEXTS; i += part[1]) {
        struct answer *answer = malloc(sizeof *answer);
        char *choices, *usage;

        assert_non_null(answer);
        client_once(&server, "POST", "/v1/completions", "", asked[i], answer);
        choices = strstr(answer->body, "\"choices\"");
        usage = strstr(answer->body, ",\"usage\"");
        if (usage != NULL)
            *usage = '\0';
        (void)snprintf(got[i], TEXT_BYTES, "%d %s", answer->code, choices != NULL ? choices : answer->body);
        free(answer);
    }
    return NULL;
}

static void ask_all(size_t clients)
{
    pthread_t threads[CLIENTS];
    size_t parts[CLIENTS][2];

    for (size_t i = 0; i < clients; i++) {
        parts[i][0] = i;
        parts[i][1] = clients;
        assert_int_equal(pthread_create(&threads[i], NULL, ask_part, parts[i]), 0);
    }
    for (size_t i = 0; i < clients; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* Runs of the model so far. */
static double runs_of(const char *model)
{
    char path[64];
    struct answer *answer = malloc(sizeof *answer);
    const char *count;
    double runs;

    assert_non_null(answer);
    (void)snprintf(path, sizeof path, "/v2/models/%s/stats", model);
    client_once(&server, "GET", path, "", NULL, answer);
    count = strstr(answer->body, "\"execution_count\":");
    assert_non_null(count);
    runs = strtod(count + strlen("\"execution_count\":"), NULL);
    free(answer);
    return runs;
}

static void test_without(void **state)
{
    (void)state;
    for (size_t k = 0; k < HEADS; k++) {
        make_requests(heads[k].name);
        ask_all(1);
        memcpy(plain[k], got, sizeof got);
        for (size_t i = 0; i < TEXTS; i++)
            assert_memory_equal(got[i], "200 ", 4);
        plain_runs[k] = runs_of(heads[k].name);
        assert_true(client_guessed_tokens(&server, heads[k].name, "read") == 0);
    }
}

static void expect_plain(size_t k)
{
    for (size_t i = 0; i < TEXTS; i++)
        if (strcmp(got[i], plain[k][i]) != 0)
            fail_msg("%s: %s\nbecomes %s\nand not %s", heads[k].name, asked[i], got[i], plain[k][i]);
}

/* Guesses are right unless they follow the end of a text, or the head does not have the token. */
static void expect_right(const char *name, double share)
{
    const double read = client_guessed_tokens(&server, name, "read"),
                 right = client_guessed_tokens(&server, name, "right");

    if (!(read > 1 && right > share * read))
        fail_msg("%s: %.0f of %.0f guesses are right", name, right, read);
}

/* Heads that compute the next hidden state are right, also after wrong guesses: the texts are the same, with fewer
 * runs. */
static void test_heads(void **state)
{
    (void)state;
    for (size_t k = 0; k < HEADS; k++) {
        make_requests(heads[k].name);
        ask_all(1);
        expect_plain(k);
        expect_right(heads[k].name, heads[k].share);
        assert_true(runs_of(heads[k].name) < plain_runs[k]);
        /* The states of first tokens are those of earlier texts, whose hidden states the head does not have. */
        assert_true(client_cached_tokens(&server, heads[k].name) > 0);
    }
}

/* Clients that disconnect after the first part of their texts. */
static void *leave(void *user)
{
    for (int i = 0; i < 4; i++) {
        char body[256], head[256];
        int fd = client_connect(&server);

        (void)snprintf(body, sizeof body,
                       "{\"model\":\"%s\",\"prompt\":\"leaves\",\"max_tokens\":300,\"n\":%d,\"stream\":true}",
                       (const char *)user, 1 + i % 2);
        (void)snprintf(head, sizeof head,
                       "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", strlen(body));
        client_text(fd, head);
        client_text(fd, body);
        assert_true(recv(fd, head, sizeof head, 0) > 0);
        (void)close(fd);
    }
    return NULL;
}

/* Other texts begin, end or lose their client while a text is generated: each guess uses the states of its own text. */
static void test_together(void **state)
{
    (void)state;
    for (size_t k = 0; k < HEADS; k++) {
        pthread_t thread;

        make_requests(heads[k].name);
        assert_int_equal(pthread_create(&thread, NULL, leave, (void *)(uintptr_t)heads[k].name), 0);
        ask_all(CLIENTS);
        assert_int_equal(pthread_join(thread, NULL), 0);
        expect_plain(k);
        expect_right(heads[k].name, heads[k].share);
    }
}

static void expect_refused(const char *model, const char *part)
{
    char path[64];

    (void)snprintf(path, sizeof path, "/v2/repository/models/%s/load", model);
    client_expect(&server, "POST", path, AS_ADMIN, "{}", 400, part);
}

static void test_refused(void **state)
{
    char path[256];

    (void)state;
    head_path("mtp", "model.onnx", path);
    write_wrong_head(path, "more");
    expect_refused("mtp", "input 'more' of model.onnx is not supplied; a head has input_ids");
    write_eagle3_head(path);
    expect_refused("mtp", "input 'hidden_states_from_base' of model.onnx has 32 numbers for each token, the outputs of "
                          "model.onnx from 'hidden_states' on have 16");
    serving_file(&server, "models/mtp/config.yaml", "draft_hidden: seen\n", 0644);
    expect_refused("mtp", "draft_hidden: the model has no output 'seen'");
    serving_file(&server, "models/single/draft/config.json", "{}", 0644);
    expect_refused("single", "reads hidden states, but model.onnx has no such output; draft_hidden in config.yaml");
    serving_file(&server, "models/single/config.yaml", "draft_hidden: hidden_states.0,hidden_states.7\n", 0644);
    write_table(head_path("single", "d2t.safetensors", path), 35);
    expect_refused("single", "d2t[93] is 35: the head's token 93 is none of the model's 128 tokens");
    assert_int_equal(unlink(path), 0);
    expect_refused("single", "it has 94 tokens, the model 128, and there is neither an output 'd2t' nor a file");
}

/* Heads whose missing parts the model does not have in a form that is understood. */
static void test_not_shared(void **state)
{
    char path[256], model[256];

    (void)state;
    (void)snprintf(model, sizeof model, "%s/models/shared/1/model.onnx", server.folder);
    write_bare_head(head_path("shared", "model.onnx", path), 12);
    expect_refused("shared", "it has version 12 of ai.onnx, and the model, whose node 'product' it needs, version 23");
    write_shared_head(path);
    write_limited_decoder(model, "Softplus");
    expect_refused("shared", "those of the model come from node 'limited' (Softplus), which is not understood");
    write_doubling(model, 1);
    expect_refused("shared", "input 'inputs_embeds' needs the embedding of the model, which has no Gather or ");
}

static int start_with(const char *tokens)
{
    const char *const flags[] = { "--max-sequences", "8", "--draft-tokens", tokens, "--admin-token-file",
                                  "FOLDER/admins",   NULL };

    prepare();
    serving_start(&server, flags);
    return 0;
}

static int start_without_heads(void **state)
{
    (void)state;
    return start_with("0");
}

static int start_with_heads(void **state)
{
    (void)state;
    return start_with("5");
}

static int end(void **state)
{
    (void)state;
    return serving_close(&server);
}

int main(void)
{
    const struct CMUnitTest without[] = { cmocka_unit_test(test_without) };
    const struct CMUnitTest with[] = { cmocka_unit_test(test_heads), cmocka_unit_test(test_together),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_not_shared) };
    int failed;

    (void)signal(SIGPIPE, SIG_IGN);
    failed = cmocka_run_group_tests(without, start_without_heads, end);
    return failed + cmocka_run_group_tests(with, start_with_heads, end);
}
