/* session/costs.c - opens the cost data that a session uses for partitioning. */
#include "base/memory.h"
#include "config/dirs.h"
#include "session/session.h"
#include "inlay/check.h"
#include <limits.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Logs an estimate for a symbol that the model does not have. That is not an error, because one setting may be used for
 * many models. */
static void log_unknown_symbol(const inlay_session *session, const char *name)
{
    char line[200];

    (void)snprintf(line, sizeof line, "option dim: the model has no open dimension named '%.100s'", name);
    if (session->env.log != NULL)
        session->env.log(session->env.log_ctx, INLAY_LOG_INFO, line);
}

/* Option dim, NAME~=N. */
static inlay_status read_assumptions(inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    cost_assumption *list;
    uint32_t count = 0;
    option_pair pair;

    for (uint32_t i = 0; options_pair(options, OPTION_dim, i, &pair); i++)
        count += option_dim_is_estimate(&pair);
    if (count == 0)
        return INLAY_OK;
    list = arena_array(&session->arena, count, sizeof *list);
    if (list == NULL)
        return no_memory(diag, "for option dim");
    count = 0;
    for (uint32_t i = 0; options_pair(options, OPTION_dim, i, &pair); i++) {
        inlay_str name = { pair.key, pair.key_bytes - 1 };
        uint32_t symbol;
        const char *copy; /* because the caller may destroy the options before tuning */

        if (!option_dim_is_estimate(&pair))
            continue;
        symbol = graph_find_dim(session->model, name.data, name.bytes);
        if (symbol != 0)
            name = session->model->symbols[symbol].name;
        copy = arena_string_n(&session->arena, name.data, name.bytes);
        if (copy == NULL)
            return no_memory(diag, "for option dim");
        list[count++] = (cost_assumption){ copy, name.bytes, strtoll(pair.value, NULL, 10) };
        if (symbol == 0)
            log_unknown_symbol(session, copy);
    }
    session->costs.sizes.assumed = list;
    session->costs.sizes.assumed_count = count;
    return INLAY_OK;
}

inlay_status session_profile_place(const inlay_options *options, char *place, const char **out_folder,
                                   const char **out_name, inlay_diag *diag)
{
    const char *path = options_text(options, OPTION_profile);
    char *slash;

    *out_folder = *out_name = NULL;
    if (strcmp(path, "auto") == 0)
        return INLAY_OK;
    *out_name = "";
    if (path[0] == '\0')
        return INLAY_OK;
    if (snprintf(place, PATH_MAX, "%s%s", strchr(path, '/') == NULL ? "./" : "", path) >= PATH_MAX)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option profile: the path has more than %d bytes: '%.100s...'",
                          PATH_MAX - 1, path);
    slash = strrchr(place, '/');
    INLAY_CHECK(slash != NULL);
    if (slash[1] == '\0')
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option profile: '%.300s' is a folder; name a file", path);
    *slash = '\0';
    *out_folder = place[0] == '\0' ? "/" : place;
    *out_name = slash + 1;
    return INLAY_OK;
}

inlay_status session_costs_open(inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    cost_book_request request = { .providers = session->providers,
                                  .provider_count = session->env.provider_count,
                                  .max_threads = session->env.max_threads,
                                  .log = session->env.log,
                                  .log_ctx = session->env.log_ctx };
    char root[PATH_MAX], folder[PATH_MAX], place[PATH_MAX];
    inlay_status status;

    session->env.sizes = &session->costs.sizes;
    session->costs.cache_dir = arena_string(&session->arena, options_text(options, OPTION_cache_dir));
    if (session->costs.cache_dir == NULL)
        return no_memory(diag, "for a session");
    status = session_profile_place(options, place, &request.profile_folder, &request.profile_name, diag);
    if (status != INLAY_OK)
        return status;
    if (request.profile_folder != NULL && access(options_text(options, OPTION_profile), R_OK) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "option profile: %.300s: %s; inlay tune --machine writes one",
                          options_text(options, OPTION_profile), strerror(errno));
    if (options_on(options, OPTION_reproducible))
        return read_assumptions(session, options, diag);
    /* Does not create the folder, so a session without costs leaves none. */
    if (config_cache_dir(options, root, sizeof root) &&
        snprintf(folder, sizeof folder, "%s/costs", root) < (int)sizeof folder)
        request.folder = folder;
    if (request.folder != NULL || request.profile_folder != NULL) {
        status = cost_book_open(&request, &session->costs.book, diag);
        if (status != INLAY_OK)
            return status;
        session->env.costs = session->costs.book;
    }
    return read_assumptions(session, options, diag);
}

inlay_status session_read_left_out(inlay_session *session, inlay_diag *diag)
{
    const struct graph *graph = session->model->main;
    uint8_t *left_out = arena_alloc(&session->arena, (size_t)session->env.provider_count + 1);
    cost_whole_model model = { .graph = graph,
                               .providers = session->providers,
                               .provider_count = session->env.provider_count,
                               .max_threads = session->env.max_threads };
    cost_sizes sizes = { .assumed = session->costs.sizes.assumed, .assumed_count = session->costs.sizes.assumed_count };
    inlay_status status = INLAY_OK;
    struct arena scratch = { 0 };
    inlay_graph snapshot;

    INLAY_TRY(graph_snapshot(graph, &scratch, &snapshot, diag));
    session->costs.model_hash = model.hash = snapshot.content_hash;
    if (left_out == NULL) {
        status = no_memory(diag, "for a session");
        goto done;
    }
    if (session->costs.book == NULL || session->rules.objective != OBJECTIVE_LATENCY) /* the runs compared times */
        goto done;
    model.values = cost_shapes(graph, &snapshot, &sizes, &scratch);
    if (model.values == NULL) {
        status = no_memory(diag, "for a session");
        goto done;
    }
    for (uint32_t i = 0; i < session->env.provider_count; i++) {
        left_out[i] = cost_is_left_out(session->costs.book, &model, i);
        if (left_out[i])
            session->rules.left_out = left_out;
    }
done:
    cost_sizes_deinit(&sizes);
    arena_deinit(&scratch);
    return status;
}

void session_costs_close(inlay_session *session)
{
    cost_book_close(session->costs.book);
    cost_sizes_deinit(&session->costs.sizes);
}

inlay_status session_costs_folder(const inlay_session *session, char *text, size_t bytes, inlay_diag *diag)
{
    inlay_options *options = NULL;
    inlay_status status = INLAY_OK;

    INLAY_TRY(options_create(&options, diag));
    INLAY_TRY(options_set(options, "cache_dir", session->costs.cache_dir, diag));
    if (!config_cache_folder(options, "costs", text, bytes))
        status = inlay_fail(diag, INLAY_IO_ERROR,
                            "no cache folder is available for measurements; see option cache_dir, which is '%s'",
                            session->costs.cache_dir);
done:
    options_destroy(options);
    return status;
}

inlay_value_state *session_guess_shapes(const inlay_session *session, struct arena *arena)
{
    const struct graph *graph = session->model->main;
    const inlay_graph counts = { .value_count = graph->value_count };
    inlay_value_state *states = NULL;
    bool conflict = true;

    for (uint32_t ones = 0; ones < 2 && conflict; ones++) {
        cost_sizes sizes = { .assumed = session->costs.sizes.assumed,
                             .assumed_count = session->costs.sizes.assumed_count,
                             .ones = ones > 0 };

        states = cost_shapes(graph, &counts, &sizes, arena);
        conflict = sizes.conflict;
        cost_sizes_deinit(&sizes);
    }
    return conflict ? NULL : states;
}
