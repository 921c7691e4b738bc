# SPDX-License-Identifier: BSD-3-Clause
"""Hosts in network namespaces, with a gateway between them: for the demo and the end-to-end tests."""
