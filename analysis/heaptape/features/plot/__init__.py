# SPDX-License-Identifier: MIT
"""Pictures of results and recordings as files: the report's and the profile's figures, by matplotlib."""
