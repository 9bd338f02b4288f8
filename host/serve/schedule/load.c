#include "serve/schedule/load.h"
#include "inlay/check.h"
#include "base/clock.h"
#include "serve/schedule/sched.h"
#include "serve/base/server.h"

enum { WINDOW_NS = 500000000 };

void load_sample(struct server *server)
{
    load_figures *figures = &server->load;
    double busy = (double)sched_running(server->sched) / server->runners;
    uint64_t now = clock_ns(), requests = atomic_load_explicit(&server->counts->requests, memory_order_relaxed);
    INLAY_CHECK(server->runners > 0);

    /* The mean over about a second: single samples vary too much. */
    figures->busy += (busy - figures->busy) / 100;
    atomic_store_explicit(&figures->utilization, (unsigned)(figures->busy * 1e4 + 0.5), memory_order_relaxed);
    if (now - figures->since_ns < WINDOW_NS)
        return;
    atomic_store_explicit(&figures->rate,
                          (unsigned)((double)(requests - figures->requests) * 1e9 / (double)(now - figures->since_ns)),
                          memory_order_relaxed);
    figures->requests = requests;
    figures->since_ns = now;
}

void load_report(const struct server *server, bool json, char out[LOAD_BYTES])
{
    double utilization = atomic_load_explicit(&server->load.utilization, memory_order_relaxed) / 1e4;
    unsigned rate = atomic_load_explicit(&server->load.rate, memory_order_relaxed);
    unsigned requests = atomic_load_explicit(&server->counts->exchanges, memory_order_relaxed);

    (void)snprintf(
        out, LOAD_BYTES,
        json ? "JSON {\"application_utilization\":%.4f,\"rps_fractional\":%u,\"named_metrics\":{\"requests\":%u}}"
             : "TEXT application_utilization=%.4f, rps_fractional=%u, named_metrics.requests=%u",
        utilization, rate, requests);
}
