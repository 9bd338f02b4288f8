/* inlay-serve: the Open Inference Protocol over HTTP. Starts, waits for SIGTERM, drains, exits. */
#include "base/output.h"
#include "base/cpus.h"
#include "serve/grpc.h"
#include "serve/listen.h"
#include "serve/log.h"
#include "serve/server.h"
#include "serve/supervise.h"
#include "serve/tls.h"
#include "serve/trace.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Raises the limit of open files to the hard limit, at most 65536: each connection needs one. */
static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* ------------------------------------------------------------------ start */

typedef struct program_state {
    struct server server;
    struct settings settings;
    struct MHD_Daemon *daemon;
    char *certificate, *key, *client_ca; /* PEM; NULL = none */
    pthread_t load_thread;
    bool loading;       /* load_thread has to be joined */
    atomic_bool loaded; /* load_thread has ended */
    bool failed;        /* listening failed after the models were loaded */
    uint64_t leave_ns;  /* time at which loads in progress are abandoned */
    uint32_t ready_count;
} program_state;

/* Reads a PEM file as text. */
static inlay_status read_pem(const char *path, char **out_text, inlay_diag *diag)
{
    enum { MAX_BYTES = 1 << 20 };
    FILE *file = fopen(path, "re");
    size_t bytes;

    if (file == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    *out_text = calloc(1, MAX_BYTES + 1);
    bytes = *out_text != NULL ? fread(*out_text, 1, MAX_BYTES, file) : 0;
    (void)fclose(file);
    return bytes > 0 ? INLAY_OK : inlay_fail(diag, INLAY_IO_ERROR, "%s is empty, or memory is exhausted", path);
}

static inlay_status read_tls(program_state *state, inlay_diag *diag)
{
    const char *certificate = settings_text(&state->settings, SET_tls_cert),
               *key = settings_text(&state->settings, SET_tls_key);
    const char *client_ca = settings_text(&state->settings, SET_tls_client_ca);
    inlay_status status;

    if (certificate[0] == '\0' && key[0] == '\0')
        return client_ca[0] == '\0'
                   ? INLAY_OK
                   : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "tls_client_ca needs tls_cert and tls_key");
    if (certificate[0] == '\0' || key[0] == '\0')
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "tls_cert and tls_key: set both or neither");
    status = read_pem(certificate, &state->certificate, diag);
    if (status == INLAY_OK)
        status = read_pem(key, &state->key, diag);
    if (status == INLAY_OK && client_ca[0] != '\0')
        status = read_pem(client_ca, &state->client_ca, diag);
    state->server.client_certificates = state->client_ca != NULL;
    return status != INLAY_OK ? status
                              : tls_create(state->certificate, state->key, state->client_ca, &state->server.tls, diag);
}

static inlay_status open_log(struct server *server, inlay_diag *diag)
{
    const char *path = settings_text(server->settings, SET_access_log);

    server->access_log = -1;
    if (strcmp(path, "-") == 0)
        server->access_log = STDERR_FILENO;
    else if (path[0] != '\0')
        server->access_log = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (path[0] != '\0' && server->access_log < 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    return INLAY_OK;
}

/* Each worker writes a separate trace file. */
static inlay_status open_trace(struct server *server, inlay_diag *diag)
{
    const char *path = settings_text(server->settings, SET_trace_file);
    char file[4200];

    (void)snprintf(file, sizeof file, supervise_is_worker() && path[0] != '\0' ? "%s.%d" : "%s", path, (int)getpid());
    return trace_create(file, &server->trace, diag);
}

static void log_mhd(void *user, const char *format, va_list args)
{
    (void)user;
    (void)vfprintf(stderr, format, args);
}

static uint32_t thread_count(const struct settings *settings)
{
    uint32_t count = (uint32_t)settings_int(settings, SET_serve_threads), cpus = cpus_allowed();

    return count > 0 ? count : cpus < 8 ? cpus : 8;
}

/* Memory of a connection in libmicrohttpd: a header, and the same size for pieces of the body and the reply's header.
 * libmicrohttpd clears it for each request. Blocks above 32 KiB are mapped, and unmapped with the connection; smaller
 * ones would come from the heap, which would grow. */
static size_t connection_bytes(const struct server *server)
{
    return (server->max_header_bytes > 16384 ? 2 * server->max_header_bytes : 32768) + 4096;
}

static inlay_status start_http(program_state *state, inlay_diag *diag)
{
    struct server *server = &state->server;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC;
    char name[128], url[160];
    int fd, family;
    inlay_status status =
        listen_open("rest", settings_text(server->settings, SET_listen), (int)settings_int(server->settings, SET_port),
                    &fd, &family, name, sizeof name, diag);
    struct MHD_OptionItem over_tls[] = { { MHD_OPTION_HTTPS_MEM_CERT, 0, state->certificate },
                                         { MHD_OPTION_HTTPS_MEM_KEY, 0, state->key },
                                         { state->client_ca != NULL ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0,
                                           state->client_ca },
                                         { MHD_OPTION_END, 0, NULL } };
    struct MHD_OptionItem none[] = { { MHD_OPTION_END, 0, NULL } };

    if (status != INLAY_OK)
        return status;
    flags |= (family == AF_INET6 ? MHD_USE_IPv6 : 0) | (state->certificate != NULL ? MHD_USE_TLS : 0) |
             (server->settings->verbose ? MHD_USE_ERROR_LOG : 0);
    state->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, exchange_handle, server, MHD_OPTION_EXTERNAL_LOGGER, log_mhd, NULL,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_MEMORY_LIMIT, connection_bytes(server),
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)settings_int(server->settings, SET_max_connections),
        MHD_OPTION_THREAD_POOL_SIZE, thread_count(server->settings) > 1 ? thread_count(server->settings) : 0,
        MHD_OPTION_NOTIFY_CONNECTION, watch_connection, server, MHD_OPTION_NOTIFY_COMPLETED, exchange_completed, server,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, state->certificate != NULL ? over_tls : none,
        MHD_OPTION_END);
    if (state->daemon == NULL) {
        (void)close(fd);
        return inlay_fail(diag, INLAY_IO_ERROR, "cannot start serving on %s%s", name,
                          state->certificate != NULL ? "; check that tls_cert and tls_key are PEM files that match"
                                                     : "");
    }
    (void)snprintf(url, sizeof url, "%s://%s", state->certificate != NULL ? "https" : "http", name);
    log_line(LOG_INFO_LINE, "listening on %s", url);
    return INLAY_OK;
}

static inlay_status start_grpc(program_state *state, inlay_diag *diag)
{
    int port = (int)settings_int(&state->settings, SET_grpc_port);
    char name[128];
    inlay_status status;

    if (port < 0)
        return INLAY_OK;
    status = grpc_start(&state->server, settings_text(&state->settings, SET_listen), port, &state->server.grpc, name,
                        sizeof name, diag);
    if (state->server.grpc != NULL)
        log_line(LOG_INFO_LINE, "listening on %s://%s", state->server.tls != NULL ? "grpcs" : "grpc", name);
    return status;
}

static inlay_status start_listening(program_state *state, inlay_diag *diag)
{
    inlay_status status = start_http(state, diag);

    return status == INLAY_OK ? start_grpc(state, diag) : status;
}

static inlay_status start(program_state *state, inlay_diag *diag)
{
    struct server *server = &state->server;
    uint32_t runners = (uint32_t)settings_int(&state->settings, SET_runners);
    inlay_status status = INLAY_OK;

    server->settings = &state->settings;
    server->max_body_bytes = (uint64_t)settings_int(&state->settings, SET_max_body_bytes);
    server->max_header_bytes = (uint64_t)settings_int(&state->settings, SET_max_header_bytes);
    server->receive_ns = (uint64_t)settings_int(&state->settings, SET_receive_timeout_ms) * 1000000;
    server->timeout_ns = (uint64_t)settings_int(&state->settings, SET_timeout_ms) * 1000000;
    server->started_ns = clock_ns();
    if (runners == 0)
        runners = cpus_allowed();
    server->runners = runners;
    server->load_header = settings_int(&state->settings, SET_load_header) != 0;
    INLAY_TRY(open_log(server, diag));
    INLAY_TRY(tokens_read(settings_text(&state->settings, SET_token_file), &server->tokens, diag));
    INLAY_TRY(tokens_read(settings_text(&state->settings, SET_admin_token_file), &server->admin_tokens, diag));
    INLAY_TRY(open_trace(server, diag));
    INLAY_TRY(read_tls(state, diag));
    INLAY_TRY(repository_open(&state->settings, runners, &server->repository, diag));
    INLAY_TRY(sched_create(runners, &server->sched, diag));
    INLAY_TRY(watch_create(server, &server->watch, diag));
    INLAY_TRY(loader_create(server, &server->loader, diag));
    if (!supervise_is_worker())
        INLAY_TRY(start_listening(state, diag));
done:
    return status;
}

/* Loads the models while health checks are already answered. A worker listens only afterwards, and is ready at once. */
static void load_models(program_state *state)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    state->ready_count = repository_load_all(state->server.repository);
    atomic_store(&state->server.ready, true);
    if (settings_stopped(&state->settings)) { /* drain() may store the same value before or after */
        atomic_store(&state->server.ready, false);
        return;
    }
    if (supervise_is_worker() && start_listening(state, &diag) != INLAY_OK) {
        log_line(LOG_ERROR_LINE, "%s", diag.text);
        state->failed = true;
        (void)kill(getpid(), SIGTERM);
        return;
    }
    log_line(LOG_INFO_LINE, "ready, models: %u", state->ready_count);
    if (supervise_is_worker())
        supervise_ready();
    else
        listen_notify("READY=1");
}

static void *load(void *user)
{
    program_state *state = user;

    load_models(state);
    atomic_store(&state->loaded, true);
    return NULL;
}

/* ------------------------------------------------------------------ shutdown */

/* Waits until no request is in progress; false: the time is up. */
static bool wait_idle(struct server *server, uint64_t ms)
{
    const struct timespec pause = { 0, 2000000 };
    uint64_t until = clock_ns() + ms * 1000000;

    while (atomic_load(&server->exchanges) > 0 && clock_ns() < until)
        (void)nanosleep(&pause, NULL);
    return atomic_load(&server->exchanges) == 0;
}

/* Waits for loads in progress, which were asked to stop. A load may not react for a long time (a plugin that compiles
 * or runs). At the end of the grace time, the process exits without it. */
static void end_loads(program_state *state)
{
    const struct timespec pause = { 0, 1000000 };

    while ((state->loading && !atomic_load(&state->loaded)) || !loader_is_idle(state->server.loader)) {
        if (clock_ns() >= state->leave_ns) {
            log_line(LOG_WARNING_LINE, "%s", "a model that is being loaded does not stop; exiting without it");
            _exit(state->failed ? 1 : 0);
        }
        (void)nanosleep(&pause, NULL);
    }
    if (state->loading)
        (void)pthread_join(state->load_thread, NULL);
    state->loading = false;
}

/* Reports not ready, then closes the listening sockets, then completes the requests or cancels them after grace_ms. */
static void drain(program_state *state, const sigset_t *signals)
{
    struct server *server = &state->server;
    uint64_t ms = (uint64_t)settings_int(&state->settings, SET_drain_ms),
             grace_ms = (uint64_t)settings_int(&state->settings, SET_grace_ms);
    struct timespec pause = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };
    int listening;

    __atomic_store_n(&state->settings.stop, 1, __ATOMIC_SEQ_CST); /* stops loads */
    state->leave_ns = clock_ns() + grace_ms * 1000000;
    if (supervise_is_worker())
        end_loads(state); /* a worker listens after loading, or never */
    atomic_store(&server->ready, false);
    atomic_store(&server->draining, true);
    listen_notify("STOPPING=1");
    if (ms > 0)
        (void)sigtimedwait(signals, NULL, &pause); /* a second signal ends the wait */
    state->leave_ns = clock_ns() + grace_ms * 1000000;
    grpc_drain(server->grpc);
    listening = state->daemon != NULL ? MHD_quiesce_daemon(state->daemon) : -1;
    if (listening >= 0)
        (void)close(listening);
    if (!wait_idle(server, grace_ms)) {
        atomic_store(&server->refusing, true);
        watch_cancel_all(server->watch);
        grpc_cancel_all(server->grpc);
        (void)wait_idle(server, 2000);
    }
}

/* libmicrohttpd waits for suspended connections when it stops: a run that does not end would block it forever. */
static void end_if_stuck(struct server *server)
{
    const struct timespec pause = { 0, 1000000 };

    for (uint32_t i = 0; i < 2000; i++) {
        if (atomic_load(&server->suspended) == 0)
            return;
        (void)nanosleep(&pause, NULL);
    }
    log_line(LOG_ERROR_LINE, "%s", "a run does not end; exiting without it");
    _exit(1);
}

static void stop(program_state *state)
{
    struct server *server = &state->server;

    end_if_stuck(server);
    if (state->daemon != NULL)
        MHD_stop_daemon(state->daemon);
    grpc_stop(server->grpc);
    end_loads(state);
    loader_destroy(server->loader);
    watch_destroy(server->watch);
    sched_destroy(server->sched);
    repository_close(server->repository);
    tokens_deinit(&server->tokens);
    tokens_deinit(&server->admin_tokens);
    trace_destroy(server->trace);
    tls_destroy(server->tls);
    if (server->access_log > STDERR_FILENO)
        (void)close(server->access_log);
    free(state->certificate);
    free(state->key);
    free(state->client_ca);
    settings_deinit(&state->settings);
}

int main(int argc, char **argv)
{
    static program_state state;
    inlay_diag diag = INLAY_DIAG_INIT;
    sigset_t signals;
    int code = 0, which;

    output_guard_streams("inlay-serve");
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    if (supervise_is_worker())
        supervise_begin_worker();
    else
        (void)sigaddset(&signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL); /* for all threads that are created later */
    settings_parse(&state.settings, argc, argv);
    (void)signal(SIGPIPE, SIG_IGN);
    raise_file_limit();
    if (supervise_wanted(&state.settings)) {
        code = supervise(&state.settings, argv);
        settings_deinit(&state.settings);
        return code;
    }
    if (start(&state, &diag) != INLAY_OK) {
        log_line(LOG_ERROR_LINE, "%s", diag.text);
        code = diag.code == INLAY_INVALID_ARGUMENT ? 2 : diag.code == INLAY_NOT_FOUND ? 3 : 1;
    } else {
        state.loading = pthread_create(&state.load_thread, NULL, load, &state) == 0;
        (void)sigwait(&signals, &which);
        drain(&state, &signals);
        code = state.failed ? 1 : 0;
    }
    stop(&state);
    return code;
}
