/* Counts the ONNX test cases that run at least one node on Vulkan, and fails if there are fewer than MINIMUM.
 *   vulkan_coverage DATA MINIMUM [PATTERN]     PATTERN of names of node cases; otherwise all cases
 * Variables of the environment set other options, as for the program inlay.
 * One process opens the device once, since starting a driver takes longer than most cases. */
#include "inlay/inlay.h"
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct report {
    char *text;
    size_t bytes;
};

static void append_text(void *user, const char *text, size_t bytes)
{
    struct report *all = user;
    char *longer = realloc(all->text, all->bytes + bytes + 1);

    if (longer == NULL)
        abort();
    memcpy(longer + all->bytes, text, bytes);
    all->text = longer;
    all->bytes += bytes;
    all->text[all->bytes] = '\0';
}

/* Does the report's table of providers count nodes of Vulkan? */
static bool counts_nodes(const inlay_session *session)
{
    struct report all = { 0 };
    unsigned nodes = 0;

    if (inlay_session_explain(session, NULL, append_text, &all, NULL) == INLAY_OK && all.text != NULL)
        for (char *line = strtok(all.text, "\n"); line != NULL && nodes == 0; line = strtok(NULL, "\n"))
            (void)sscanf(line, "vulkan %u", &nodes);
    free(all.text);
    return nodes > 0;
}

int main(int argc, char **argv)
{
    unsigned least = argc >= 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0, runs = 0;
    inlay_session *last = NULL; /* keeps the device open until the next session exists */
    inlay_options *options = NULL;
    char pattern[4096];
    glob_t models;

    if (least == 0 || inlay_options_create(&options, NULL) != INLAY_OK ||
        inlay_options_load_environment(options, NULL) != INLAY_OK ||
        inlay_options_set(options, "providers", "vulkan,reference", NULL) != INLAY_OK ||
        inlay_options_set(options, "policy", "priority", NULL) != INLAY_OK) {
        (void)fprintf(stderr, "Usage: vulkan_coverage DATA MINIMUM [PATTERN]\n");
        return 2;
    }
    (void)snprintf(pattern, sizeof pattern, "%s/%s/%s/model.onnx", argv[1],
                   argc > 3 ? "node" : "{node,simple,pytorch-converted,pytorch-operator}", argc > 3 ? argv[3] : "*");
    if (glob(pattern, GLOB_BRACE, NULL, &models) != 0)
        models.gl_pathc = 0;
    for (size_t i = 0; i < models.gl_pathc; i++) {
        inlay_session *session = NULL;

        if (inlay_session_create(models.gl_pathv[i], options, &session, NULL) != INLAY_OK)
            continue;
        runs += counts_nodes(session);
        inlay_session_destroy(last);
        last = session;
    }
    (void)printf("%u of %zu cases run a node on Vulkan\n", runs, models.gl_pathc);
    inlay_session_destroy(last);
    inlay_options_destroy(options);
    globfree(&models);
    return runs >= least ? 0 : 1;
}
