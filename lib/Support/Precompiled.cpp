// Carries the precompiled header; see Precompiled.h.
