/* fragile.h - what the provider fragile does if an input begins with one of these numbers. */
#ifndef FRAGILE_H
#define FRAGILE_H

/* Size of the file that the application has open for FRAGILE_DESCRIPTOR. */
#define FRAGILE_FILE_BYTES 54321
/* A variable that isolated processes get: the folder that the plugin tries to create when it is loaded and opened. */
#define FRAGILE_WITNESS "XDG_FRAGILE_WITNESS"

enum {
    FRAGILE_MARK = 1000, /* sets the first element of the output to -1, to show that it runs */
    FRAGILE_CRASH,
    FRAGILE_HANG,
    FRAGILE_EXIT,
    FRAGILE_ABORT,
    FRAGILE_WRITE_INPUT,
    FRAGILE_OVERWRITE_0,
    FRAGILE_OVERWRITE_FF,
    FRAGILE_ALLOCATE, /* until there is no memory, then crashes */
    FRAGILE_MAP,      /* the same with mmap */
    FRAGILE_EXHAUST,  /* reports it instead */
    FRAGILE_LARGE,    /* an allocation above the limit, whose failure it handles */
    /* sets the first element to -1 if it succeeds */
    FRAGILE_FILE,
    FRAGILE_SOCKET,
    FRAGILE_FORK,
    FRAGILE_SECRET,     /* reads a variable of the application's environment */
    FRAGILE_OPENING,    /* the plugin's constructor, or the opening, could do more than read files */
    FRAGILE_DESCRIPTOR, /* finds a descriptor of the application */
    FRAGILE_TILES       /* permitted */
};
#endif
