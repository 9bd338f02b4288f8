/* A library that the loader does not find, and one that needs it. */
int missing(void);
#ifdef NEEDS_MISSING
int needs(void);
int needs(void)
{
    return missing();
}
#else
int missing(void)
{
    return 0;
}
#endif
