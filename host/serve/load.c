#include "serve/load.h"
#include "serve/server.h"

enum { WINDOW_NS = 500000000 };

void load_follow(struct server *s)
{
    load_figures *l = &s->load;
    double busy = (double)sched_running(s->sched) / s->runners;
    uint64_t now = clock_ns(), requests = atomic_load_explicit(&s->requests, memory_order_relaxed);

    /* The mean over about a second: single moments say nothing. */
    l->busy += (busy - l->busy) / 100;
    atomic_store_explicit(&l->utilization, (unsigned)(l->busy * 1e4 + 0.5), memory_order_relaxed);
    if (now - l->since_ns < WINDOW_NS)
        return;
    atomic_store_explicit(&l->rate, (unsigned)((double)(requests - l->requests) * 1e9 / (double)(now - l->since_ns)),
                          memory_order_relaxed);
    l->requests = requests;
    l->since_ns = now;
}

void load_report(const struct server *s, bool json, char out[LOAD_BYTES])
{
    double utilization = atomic_load_explicit(&s->load.utilization, memory_order_relaxed) / 1e4;
    unsigned rate = atomic_load_explicit(&s->load.rate, memory_order_relaxed);
    unsigned requests = atomic_load_explicit(&s->exchanges, memory_order_relaxed);

    (void)snprintf(
        out, LOAD_BYTES,
        json ? "JSON {\"application_utilization\":%.4f,\"rps_fractional\":%u,\"named_metrics\":{\"requests\":%u}}"
             : "TEXT application_utilization=%.4f, rps_fractional=%u, named_metrics.requests=%u",
        utilization, rate, requests);
}
