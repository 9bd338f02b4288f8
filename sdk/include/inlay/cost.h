/* inlay/cost.h - what a provider says about a node: the reason why the provider cannot run the node, or its price.
 *
 * Part of the plugin ABI: terms and rules of inlay/plugin.h apply. */
#ifndef INLAY_COST_H
#define INLAY_COST_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reasons of refusals. `inlay explain` shows the text of each refusal, but only counts those with INLAY_REFUSE_OPERATOR
 * unless --all is given: a provider that supports the operator elsewhere states another reason. */
enum {
    INLAY_REFUSE_OPERATOR = 1,  /* the provider does not support the operator at all */
    INLAY_REFUSE_VERSION = 2,   /* the provider supports the operator, but not this since_version */
    INLAY_REFUSE_DTYPE = 3,     /* because of an element type */
    INLAY_REFUSE_SHAPE = 4,     /* because of a rank, a size, or a shape that is not known */
    INLAY_REFUSE_ATTRIBUTE = 5, /* because of the value of an attribute */
    INLAY_REFUSE_DEVICE = 6,    /* the device lacks a feature */
    INLAY_REFUSE_MEMORY = 7,    /* the device lacks memory */
    INLAY_REFUSE_OPTION = 8,    /* an option of the user excludes it */
    INLAY_REFUSE_LATE = 9,      /* set by the host: compile or specialize declined the offer */
    INLAY_REFUSE_PATTERN = 10   /* because of its neighbours: it runs only together with nodes that are not there */
};

/* Origin of a cost: a rough guess, a model of the kernel's time, or a measurement. */
enum { INLAY_CONFIDENCE_GUESS = 0, INLAY_CONFIDENCE_MODEL = 1, INLAY_CONFIDENCE_MEASURED = 2 };

/* The estimated cost of an offer. If ns is negative, infinite or NaN, or if the function fails, the offer has no cost
 * and is used only for nodes without another offer; such values of enter_ns and leave_ns count as 0. All times count
 * for each provider, whatever its memory domain; the host prices copies to and from a domain. */
typedef struct inlay_cost {
    uint64_t struct_size;
    double ns;    /* required: expected time of one run in nanoseconds, without copies to and from other domains */
    double flops; /* operations on floats or integers; up to 2 per byte, 0 too, the memory limits the node's speed */
    uint64_t bytes_read;    /* bytes read from memory if the caches are cold */
    uint64_t bytes_written; /* bytes written to memory */
    uint32_t confidence;    /* INLAY_CONFIDENCE_* */
    uint32_t reserved;
    /* For an offer that merges, ns is its time inside a region together with its neighbours. enter_ns is the additional
     * time if its inputs enter the region at this offer; leave_ns is the additional time if its outputs leave the
     * region. Both are mostly times of changes of layout. If only some of the values enter or leave, each counts by its
     * share of the bytes. A value that several offers read enters the regions of the provider once, at the highest
     * price. For an offer that does not merge, both are added to ns. */
    double enter_ns;
    double leave_ns;
    /* Since 1.1. For a provider with INLAY_PROVIDER_REFERENCE_CORE: the expected time on this machine's kind of CPU, as
     * INLAY_EXT_SPEED in extensions.h describes it. The host uses it instead of ns. 0: not known; the host scales
     * ns. */
    double local_ns;
} inlay_cost;

#ifdef __cplusplus
}
#endif
#endif
