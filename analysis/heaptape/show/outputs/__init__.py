# SPDX-License-Identifier: MIT
"""The shapes of commands' JSON output, as types. JSON Schemas are generated from them (docs/formats/SCHEMAS.md)."""
