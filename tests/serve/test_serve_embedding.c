/* /v1/embeddings and what compares vectors: pooling, texts that share runs; tokens of texts. */
#include "client.h"
#include <math.h>
#include <pthread.h>
#include <string.h>
#include "cmocka_all.h"

static struct serving server;

/* BERT's tokenizer: words in pieces, [CLS] and [SEP] around a text. */
static const char bert[] =
    "{\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_accents\":"
    "null,\"lowercase\":true},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"post_processor\":{\"type\":"
    "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},{\"Sequence\":{\"id\":"
    "\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{"
    "\"[CLS]\":{\"id\":\"[CLS]\",\"ids\":[2],\"tokens\":[\"[CLS]\"]},\"[SEP]\":{\"id\":\"[SEP]\",\"ids\":[3],"
    "\"tokens\":[\"[SEP]\"]}}},\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},\"added_"
    "tokens\":"
    "[],\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","
    "\"max_input_chars_per_word\":100,\"vocab\":{\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,\"[SEP]\":3,\"un\":4,"
    "\"##want\":5,\"##ed\":6,\"!\":7}}}";

/* Forms of pooling, and the vector of the word pieces [CLS] un ##want ##ed [SEP], ids 2 to 6 without 7. */
static const struct {
    const char *name, *mode, *vector;
} pooled[] = { { "first", "pooling_mode_cls_token", "[0,0,1,0,0,0,0,0" },
               { "last", "pooling_mode_lasttoken", "[0,0,0,1,0,0,0,0" },
               { "most", "pooling_mode_max_tokens", "[0,0,1,1,1,1,1,0" },
               { "mean", "pooling_mode_mean_tokens",
                 "[0,0,0.200000003,0.200000003,0.200000003,0.200000003,0.200000003,0" } };

static int start(void **state)
{
    *state = &server;
    serving_prepare(&server);
    serving_model(&server, "count", "options: [state=old=new]\n", write_counting);
    serving_tokenizer(&server, "count", NULL);
    serving_model(&server, "vectors", NULL, write_vectors);
    serving_tokenizer(&server, "vectors", NULL);
    serving_model(&server, "bert", NULL, write_vectors);
    serving_file(&server, "models/bert/tokenizer.json", bert, 0644);
    for (size_t i = 0; i < sizeof pooled / sizeof *pooled; i++) {
        char path[128], text[128];

        serving_model(&server, pooled[i].name, NULL, write_vectors);
        (void)snprintf(path, sizeof path, "models/%s/tokenizer.json", pooled[i].name);
        serving_file(&server, path, bert, 0644);
        (void)snprintf(path, sizeof path, "models/%s/1_Pooling", pooled[i].name);
        serving_folder(&server, path);
        (void)snprintf(path, sizeof path, "models/%s/1_Pooling/config.json", pooled[i].name);
        (void)snprintf(text, sizeof text, "{\"pooling_mode_mean_tokens\":false,\"%s\":true}", pooled[i].mode);
        serving_file(&server, path, text, 0644);
        (void)snprintf(path, sizeof path, "models/%s/modules.json", pooled[i].name);
        serving_file(&server, path, "[{\"type\":\"sentence_transformers.models.Pooling\"}]", 0644);
    }
    serving_file(&server, "models/most/config.json", "{\"max_position_embeddings\":100}", 0644);
    serving_start(&server, NULL);
    return 0;
}

static void embed(const char *body, int code, const char *part)
{
    client_expect(&server, "POST", "/v1/embeddings", "", body, code, part);
}

static void test_embeddings(void **state)
{
    (void)state;
    /* '!' is 33, '"' 34, '#' 35: after 33 numbers the vector of "!!!!###" is (4, 0, 3) / 5. */
    embed("{\"model\":\"vectors\",\"input\":\"!!!!###\"}", 200,
          "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
          "0,0,0,0,0,0.800000012,0,0.600000024,0,");
    embed("{\"model\":\"vectors\",\"input\":[\"!\",\"#\",\"ab\"]}", 200, "0,0,1,0,");
    embed("{\"model\":\"vectors\",\"input\":[\"!\",\"#\",\"ab\"]}", 200, "{\"object\":\"embedding\",\"index\":2,");
    embed("{\"model\":\"vectors\",\"input\":[\"!\",\"#\",\"ab\"]}", 200,
          "\"model\":\"vectors\",\"usage\":{\"prompt_tokens\":4,\"total_tokens\":4}}");
    embed("{\"model\":\"vectors\",\"input\":[\"a\",\"\"]}", 400, "input 1 has no tokens");
    embed("{\"model\":\"vectors\",\"input\":\"a\",\"encoding_format\":\"hex\"}", 400, "'hex' is not supported");
    embed("{\"model\":\"vectors\",\"input\":7}", 400, "neither a text nor tokens");
    embed("{\"model\":\"vectors\"}", 400, "no input");
    embed("{\"model\":\"count\",\"input\":\"a\"}", 400, "not an embedding model");
    embed("{\"model\":\"none\",\"input\":\"a\"}", 404, "no such model");
    client_expect(&server, "POST", "/v1/completions", "", "{\"model\":\"vectors\",\"prompt\":\"x\"}", 400,
                  "not a model for texts");
}

/* A text that the model could not take is not split into tokens. */
static void test_long_text(void **state)
{
    static char body[20100];

    (void)state;
    (void)snprintf(body, sizeof body, "{\"model\":\"most\",\"input\":\"%0*d\"}", 20000, 0);
    embed(body, 400, "input 0 has 20000 bytes");
}

/* Similarities by the vectors of test_embeddings(): each character is a dimension. */
static void test_similarity(void **state)
{
    (void)state;
    client_expect(&server, "POST", "/v1/rerank", "",
                  "{\"model\":\"vectors\",\"query\":\"ab\",\"documents\":[\"cd\",\"ab\",{\"text\":\"ac\"}]}", 200,
                  "\"results\":[{\"index\":1,\"document\":{\"text\":\"ab\"},\"relevance_score\":1},"
                  "{\"index\":2,\"document\":{\"text\":\"ac\"},\"relevance_score\":0.5},{\"index\":0,");
    client_expect(
        &server, "POST", "/v1/rerank", "",
        "{\"model\":\"vectors\",\"documents\":[\"cd\",\"ab\"],\"query\":\"ab\",\"top_n\":1,\"return_documents\":false}",
        200, "\"results\":[{\"index\":1,\"relevance_score\":1}]}");
    client_expect(
        &server, "POST", "/v1/score", "", "{\"model\":\"vectors\",\"text_1\":\"ab\",\"text_2\":[\"ab\",\"xy\"]}", 200,
        "\"data\":[{\"index\":0,\"object\":\"score\",\"score\":1},{\"index\":1,\"object\":\"score\",\"score\":0}]");
    client_expect(&server, "POST", "/v1/score", "",
                  "{\"model\":\"vectors\",\"text_1\":[\"ab\",\"c\"],\"text_2\":[\"cd\",\"c\"]}", 200,
                  "{\"index\":0,\"object\":\"score\",\"score\":0},{\"index\":1,\"object\":\"score\",\"score\":1}");
    client_expect(&server, "POST", "/v1/score", "",
                  "{\"model\":\"vectors\",\"text_1\":[\"a\",\"b\"],\"text_2\":[\"c\"]}", 400, "as many texts");
    for (int i = 0; i < 2; i++) /* paths of other servers */
        client_expect(&server, "POST", i == 0 ? "/rerank" : "/v2/rerank", "",
                      "{\"model\":\"vectors\",\"query\":\"a\",\"documents\":[\"a\"]}", 200, "\"relevance_score\":1");
    client_expect(&server, "POST", "/score", "", "{\"model\":\"vectors\",\"text_1\":\"a\",\"text_2\":\"a\"}", 200,
                  "\"score\":1");
    client_expect(&server, "GET", "/v1/health", "", NULL, 200, "\"status\":\"ok\"");
    client_expect(&server, "GET", "/ping", "", NULL, 200, "\"status\":\"ok\"");
    client_expect(&server, "POST", "/v1/rerank", "", "{\"model\":\"vectors\",\"query\":\"a\"}", 400,
                  "\"param\":\"documents\"");
    client_expect(&server, "POST", "/v1/rerank", "", "{\"model\":\"count\",\"query\":\"a\",\"documents\":[\"b\"]}", 400,
                  "not an embedding model");
}

static void test_tokens(void **state)
{
    (void)state;
    client_expect(&server, "POST", "/tokenize", "", "{\"model\":\"count\",\"prompt\":\"xyz\"}", 200,
                  "{\"count\":3,\"max_model_len\":0,\"tokens\":[120,121,122]}");
    client_expect(&server, "POST", "/tokenize", "",
                  "{\"model\":\"bert\",\"content\":\"unwanted\",\"add_special\":false}", 200, "\"tokens\":[4,5,6]");
    client_expect(&server, "POST", "/detokenize", "", "{\"model\":\"count\",\"tokens\":[120,121]}", 200,
                  "{\"prompt\":\"xy\",\"content\":\"xy\"}");
    client_expect(&server, "POST", "/detokenize", "", "{\"model\":\"count\",\"tokens\":[99999]}", 400,
                  "no token 99999");
    client_expect(&server, "POST", "/tokenize", "", "{\"model\":\"twice\",\"prompt\":\"x\"}", 404, "no such model");
    client_expect(&server, "POST", "/tokenize", "", "{\"prompt\":\"x\"}", 404, "no such model"); /* there are several */
}

/* Texts of many lengths in one request: those that share a run have the vectors that they have alone. */
static void test_many_embeddings(void **state)
{
    static char body[16384], part[512];
    size_t used = (size_t)snprintf(body, sizeof body, "{\"model\":\"vectors\",\"dimensions\":35,\"input\":[");

    (void)state;
    for (size_t i = 0; i < 100; i++) { /* text i: i % 13 times token 33, then token 34 */
        used += (size_t)snprintf(body + used, sizeof body - used, "%s[", i > 0 ? "," : "");
        for (size_t k = 0; k < i % 13; k++)
            used += (size_t)snprintf(body + used, sizeof body - used, "33,");
        used += (size_t)snprintf(body + used, sizeof body - used, "34]");
    }
    (void)snprintf(body + used, sizeof body - used, "]}");
    for (size_t i = 0; i < 100; i += 11) {
        double ones = (double)(i % 13), norm = sqrt(ones * ones + 1);

        used = (size_t)snprintf(part, sizeof part, "\"index\":%zu,\"embedding\":[", i);
        for (int k = 0; k < 33; k++)
            used += (size_t)snprintf(part + used, sizeof part - used, "0,");
        (void)snprintf(part + used, sizeof part - used, "%.9g,%.9g]", (double)(float)(ones / norm),
                       (double)(float)(1 / norm));
        embed(body, 200, part);
    }
}

/* Asks for the vectors of one text a request, of changing lengths, and of two. Returns NULL, or the text of a wrong
 * answer. */
static void *ask_vectors(void *user)
{
    const int first = *(const int *)user;
    static _Thread_local struct answer answer;

    for (int i = 0; i < 40; i++) {
        const int ones = (first * 5 + i) % 13 + 1, more = ones + i % 9;
        char body[512], part[256];
        size_t used = (size_t)snprintf(body, sizeof body, "{\"model\":\"vectors\",\"dimensions\":35,\"input\":[[");

        for (int k = 0; k < ones; k++)
            used += (size_t)snprintf(body + used, sizeof body - used, "33,");
        used += (size_t)snprintf(body + used, sizeof body - used, i % 2 == 0 ? "34]]}" : "34],[");
        for (int k = 0; k < more && i % 2 == 1; k++)
            used += (size_t)snprintf(body + used, sizeof body - used, k + 1 < more ? "34," : "34]]}");
        (void)snprintf(part, sizeof part, "0,0,0,%.9g,%.9g]", (double)(float)(ones / sqrt(ones * ones + 1.0)),
                       (double)(float)(1 / sqrt(ones * ones + 1.0)));
        client_once(&server, "POST", "/v1/embeddings", "", body, &answer);
        if (answer.code != 200 || strstr(answer.body, part) == NULL ||
            (i % 2 == 1 && strstr(answer.body, "0,0,0,1]}]") == NULL))
            return answer.body;
    }
    return NULL;
}

/* Texts of several requests share runs; each has the vector that it has alone. */
static void test_concurrent_embeddings(void **state)
{
    enum { CLIENTS = 6 };
    pthread_t threads[CLIENTS];
    int first[CLIENTS];
    void *wrong;

    (void)state;
    for (int i = 0; i < CLIENTS; i++) {
        first[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, ask_vectors, &first[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
}

/* "Unwanted!" is [CLS] un ##want ##ed ! [SEP]. */
static void test_word_pieces(void **state)
{
    (void)state;
    embed("{\"model\":\"bert\",\"input\":\"Unwanted!\"}", 200,
          "[0,0,0.408248305,0.408248305,0.408248305,0.408248305,0.408248305,0.408248305,0,");
    embed("{\"model\":\"bert\",\"input\":\"Unwanted!\"}", 200, "\"prompt_tokens\":6,");
    embed("{\"model\":\"bert\",\"input\":\"what\"}", 200, "[0,0.577350259,0.577350259,0.577350259,0,");
}

/* Without a step that normalizes, the vectors have the lengths that pooling gives them. */
static void test_pooling(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pooled / sizeof *pooled; i++) {
        char body[128];

        (void)snprintf(body, sizeof body, "{\"model\":\"%s\",\"input\":\"unwanted\"}", pooled[i].name);
        embed(body, 200, pooled[i].vector);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embeddings),      cmocka_unit_test(test_long_text),
        cmocka_unit_test(test_similarity),      cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_word_pieces),     cmocka_unit_test(test_pooling),
        cmocka_unit_test(test_many_embeddings), cmocka_unit_test(test_concurrent_embeddings),
    };

    return cmocka_run_group_tests(tests, start, serving_tear_down);
}
